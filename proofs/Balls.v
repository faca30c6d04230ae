(* The balls that the service draws from are balls: of two lattice points, one in r K and one in
   s K, the sum lies in (r + s) K. *)

From Coq Require Import ZArith Bool List Lia Psatz.
From ReleaseDesk Require Import Knorm.
Import ListNotations.

(* Sums over the coordinates of a vector. *)
Definition total (f : nat -> Z) m := fold_right (fun i s => f i + s)%Z 0%Z (seq 0 m).

Definition l1 m r v := (total (fun i => Z.abs (v i)) m <= Z.of_nat r)%Z.
Definition linf m r (v : vector) := forall i, i < m -> (Z.abs (v i) <= Z.of_nat r)%Z.

(* A histogram: what all risen cells gain, and all fallen ones lose. Where every record is counted,
   both are the same. *)
Definition risen (v : vector) m := total (fun i => Z.max 0 (v i)) m.
Definition fallen (v : vector) m := (risen v m - total v m)%Z.
Definition in_histogram filtered m r v :=
  ((Z.max (risen v m) (fallen v m) <=? Z.of_nat r)%Z
   && (filtered || (risen v m =? fallen v m)%Z))%bool.
Definition histogram filtered m r v := in_histogram filtered m r v = true.

(* Facets a, each with its bound b: a . v <= b r. *)
Definition polytope m (facets : list (vector * Z)) r (v : vector) :=
  Forall (fun f => total (fun i => fst f i * v i) m <= snd f * Z.of_nat r)%Z facets.

Lemma total_below f g m : (forall i, f i <= g i)%Z -> (total f m <= total g m)%Z.
Proof.
  intros H; unfold total; induction (seq 0 m) as [| i l IH]; simpl; [lia | specialize (H i); lia].
Qed.

Lemma total_plus f g m : (total (fun i => f i + g i) m = total f m + total g m)%Z.
Proof. unfold total; induction (seq 0 m) as [| i l IH]; simpl; lia. Qed.

Lemma total_same f g m : (forall i, f i = g i) -> total f m = total g m.
Proof. intros H; unfold total; induction (seq 0 m); simpl; rewrite ?H; congruence. Qed.

Theorem l1_is_a_ball m : ball (l1 m).
Proof.
  split; unfold l1.
  - intros; lia.
  - intros r s v u V U; rewrite Nat2Z.inj_add.
    pose proof (total_plus (fun i => Z.abs (v i)) (fun i => Z.abs (u i)) m).
    pose proof (total_below (fun i => Z.abs (plus v u i)) (fun i => Z.abs (v i) + Z.abs (u i))%Z m).
    unfold plus in *; lapply H0; [lia | intros; lia].
  - intros r v u E V; erewrite total_same; [exact V |]; intros; simpl; rewrite E; reflexivity.
Qed.

Theorem linf_is_a_ball m : ball (linf m).
Proof.
  split; unfold linf, plus.
  - intros r s v L V i I; specialize (V i I); lia.
  - intros r s v u V U i I; specialize (V i I); specialize (U i I); lia.
  - intros r v u E V i I; rewrite <- E; auto.
Qed.

Theorem histogram_is_a_ball filtered m : ball (histogram filtered m).
Proof.
  split; unfold histogram, in_histogram.
  - intros r s v L; rewrite !andb_true_iff, !Z.leb_le; intros []; split; [lia | assumption].
  - intros r s v u; rewrite !andb_true_iff, !Z.leb_le, !orb_true_iff, !Z.eqb_eq, Nat2Z.inj_add.
    unfold fallen, risen; intros [V V'] [U U'].
    pose proof (total_plus v u m).
    pose proof (total_plus (fun i => Z.max 0 (v i)) (fun i => Z.max 0 (u i)) m).
    change (total (plus v u) m) with (total (fun i => v i + u i)%Z m).
    assert (total (fun i => Z.max 0 (plus v u i)) m
      <= total (fun i => Z.max 0 (v i) + Z.max 0 (u i)) m)%Z
      by (apply total_below; intros; unfold plus; lia).
    cbv beta in *; split; [lia |]; destruct V' as [F | V'], U' as [F' | U']; auto; right; lia.
  - intros r v u E; unfold fallen, risen.
    rewrite (total_same v u m E).
    rewrite (total_same (fun i => Z.max 0 (v i)) (fun i => Z.max 0 (u i)) m); [trivial |].
    intros; simpl; rewrite E; reflexivity.
Qed.

Theorem polytopes_are_balls m facets :
  Forall (fun f => 0 <= snd f)%Z facets -> ball (polytope m facets).
Proof.
  intros P; split; unfold polytope; rewrite ?Forall_forall in *.
  - intros r s v L V; rewrite Forall_forall in *; intros f F.
    specialize (V f F); specialize (P f F); cbv beta in *.
    eapply Z.le_trans; [exact V |].
    apply Z.mul_le_mono_nonneg_l; [exact P | apply Nat2Z.inj_le; exact L].
  - intros r s v u V U; rewrite Forall_forall in *; intros f F.
    specialize (V f F); specialize (U f F); cbv beta in *; rewrite Nat2Z.inj_add.
    rewrite (total_same _ (fun i => fst f i * v i + fst f i * u i)%Z), total_plus; [lia |].
    intros; unfold plus; lia.
  - intros r v u E; rewrite !Forall_forall; intros V f F; specialize (V f F).
    erewrite total_same; [exact V |]; intros; simpl; rewrite E; reflexivity.
Qed.

(* Balls made of balls: what lies in all of them; a ball of some of the coordinates, in any order;
   and a ball that narrows as a first coordinate, a count, grows. *)
Definition every (balls : list (nat -> vector -> Prop)) r v := Forall (fun K => K r v) balls.
Definition of_coordinates (K : nat -> vector -> Prop) (place : nat -> nat) r (v : vector) :=
  K r (fun i => v (place i)).
Definition counted (K : nat -> vector -> Prop) (unit_ share : nat) r (v : vector) :=
  Z.to_nat (Z.abs (v 0)) <= r
  /\ K (unit_ * r - share * Z.to_nat (Z.abs (v 0))) (fun i => Z.of_nat unit_ * v (S i))%Z.

Theorem all_of_balls_is_a_ball balls : Forall ball balls -> ball (every balls).
Proof.
  intros B; split; unfold every; rewrite !Forall_forall in *.
  - intros r s v L V; rewrite Forall_forall in *; intros K I.
    apply (grows K (B K I) r); [exact L | exact (V K I)].
  - intros r s v u V U; rewrite Forall_forall in *; intros K I.
    apply (adds K (B K I)); [exact (V K I) | exact (U K I)].
  - intros r v u E; rewrite !Forall_forall; intros V K I.
    apply (same K (B K I) r v); [exact E | exact (V K I)].
Qed.

Theorem ball_of_some_coordinates K place : ball K -> ball (of_coordinates K place).
Proof.
  intros B; split; unfold of_coordinates.
  - intros r s v; apply (grows K B).
  - intros r s v u; apply (adds K B).
  - intros r v u E; apply (same K B); auto.
Qed.

Theorem counted_ball_is_a_ball K unit_ share :
  ball K -> share <= unit_ -> ball (counted K unit_ share).
Proof.
  intros B L; split; unfold counted.
  - intros r s v M [C V]; split; [lia |]; eapply (grows K B); [| exact V]; nia.
  - intros r s v u [C V] [D U]; unfold plus; split; [lia |].
    apply (grows K B (unit_ * r - share * Z.to_nat (Z.abs (v 0))
                      + (unit_ * s - share * Z.to_nat (Z.abs (u 0))))).
    + assert (T : Z.to_nat (Z.abs (v 0 + u 0)) <= Z.to_nat (Z.abs (v 0)) + Z.to_nat (Z.abs (u 0)))
        by lia.
      set (x := Z.to_nat (Z.abs (v 0))) in *; set (y := Z.to_nat (Z.abs (u 0))) in *.
      set (z := Z.to_nat (Z.abs (v 0 + u 0))) in *.
      assert (share * z <= share * x + share * y) by nia.
      assert (share * x <= unit_ * r) by nia; assert (share * y <= unit_ * s) by nia; lia.
    + eapply (same K B); [| apply (adds K B); [exact V | exact U]].
      intros i; unfold plus; simpl; lia.
  - intros r v u E [C V]; rewrite <- !E; split; [exact C |].
    eapply (same K B); [| exact V]; intros i; simpl; rewrite E; reflexivity.
Qed.

(* Computed for the comparison with the program: three cells, the size, and whether the hull of a
   histogram of that size holds them; first of all records, then of those that meet conditions. *)
Open Scope Z_scope.
Definition numbers from n := map (fun k => Z.of_nat k + from) (seq 0 n).
Definition cells (a b c : Z) : vector := fun i => nth i [a; b; c] 0.
Definition yes_or_no (b : bool) := if b then 1 else 0.
Definition histogram_table :=
  flat_map (fun a => flat_map (fun b => flat_map (fun c => map (fun r =>
    [a; b; c; Z.of_nat r; yes_or_no (in_histogram false 3 r (cells a b c));
     yes_or_no (in_histogram true 3 r (cells a b c))]) [0; 1; 2; 3]%nat)
    (numbers (-2) 4)) (numbers (-1) 4)) (numbers (-2) 5).
