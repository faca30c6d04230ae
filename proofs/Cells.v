(* Sums by cell: each record is in one cell, and adds to the coordinates of that cell alone. The
   ball of all of them joins the cells' balls: v lies in r of it if each cell's part lies in r_g of
   the cell's ball, and the r_g add up to r at most. The least such r is the sum of the cells'
   norms, each rounded up. *)

From Coq Require Import Reals ZArith List Lia Lra.
From ReleaseDesk Require Import Knorm.

Open Scope nat_scope.

Section Joined.

(* The cell of each coordinate, how many cells there are, and the ball of each. *)
Variable cell : nat -> nat.
Variable cells : nat.
Variable K : nat -> nat -> vector -> Prop.
Hypothesis balls : forall g, ball (K g).
Hypothesis nothing : forall g, K g 0 (fun _ => 0%Z).

Definition part g (v : vector) : vector := fun i => if Nat.eqb (cell i) g then v i else 0%Z.

Fixpoint total (r : nat -> nat) n : nat := match n with O => 0 | S m => total r m + r m end.

Definition joined r v :=
  exists rs, total rs cells <= r /\ forall g, g < cells -> K g (rs g) (part g v).

Lemma total_adds r s n : total (fun g => r g + s g) n = total r n + total s n.
Proof. induction n; simpl; lia. Qed.

Lemma total_of_one c d n : total (fun g => if Nat.eqb g c then d else 0) n =
  if Nat.ltb c n then d else 0.
Proof.
  induction n; simpl; [reflexivity |].
  rewrite IHn; destruct (Nat.ltb_spec c n), (Nat.ltb_spec c (S n)), (Nat.eqb_spec n c); lia.
Qed.

(* So noise shaped by it is private as any other K-norm noise is: see Knorm. *)
Theorem joined_is_a_ball : ball joined.
Proof.
  split.
  - intros r s v L [rs [T P]]; exists rs; split; [lia | exact P].
  - intros r s v u [rs [T P]] [ss [T' P']].
    exists (fun g => rs g + ss g); rewrite total_adds; split; [lia |].
    intros g L; apply (same _ (balls g) _ (plus (part g v) (part g u))).
    + intros i; unfold plus, part; destruct (Nat.eqb (cell i) g); lia.
    + apply (adds _ (balls g)); auto.
  - intros r v u E [rs [T P]]; exists rs; split; [exact T |].
    intros g L; apply (same _ (balls g) _ (part g v)); [| auto].
    intros i; unfold part; destruct (Nat.eqb (cell i) g); [apply E | reflexivity].
Qed.

(* What a record of cell c adds: nothing elsewhere, and within d of its cell's ball, both ways. *)
Definition of_cell c d (v : vector) :=
  c < cells /\ (forall i, cell i <> c -> v i = 0%Z) /\
  K c d v /\ K c d (minus (fun _ => 0%Z) v).

Lemma one_way c d v : c < cells -> (forall i, cell i <> c -> v i = 0%Z) -> K c d v -> joined d v.
Proof.
  intros L Z M; exists (fun g => if Nat.eqb g c then d else 0); split.
  - rewrite total_of_one; apply Nat.ltb_lt in L; rewrite L; lia.
  - intros g _; destruct (Nat.eqb_spec g c) as [-> | N].
    + apply (same _ (balls c) _ v); [| exact M].
      intros i; unfold part; destruct (Nat.eqb_spec (cell i) c); auto.
    + apply (same _ (balls g) _ (fun _ => 0%Z)); [| apply nothing].
      intros i; unfold part; destruct (Nat.eqb_spec (cell i) g); [| reflexivity].
      symmetry; apply Z; lia.
Qed.

(* A record more or less, in whatever cell: the other cells cost nothing. *)
Theorem one_record_moves_one_cell c d v T : of_cell c d v -> within joined d (plus T v) T.
Proof.
  intros (L & Z & M & M'); split.
  - apply (same _ joined_is_a_ball _ v); [intros i; unfold minus, plus; lia |].
    exact (one_way c d v L Z M).
  - apply (same _ joined_is_a_ball _ (minus (fun _ => 0%Z) v)).
    + intros i; unfold minus, plus; lia.
    + apply (one_way c d _ L); [| exact M'].
      intros i N; unfold minus; rewrite (Z i N); reflexivity.
Qed.

(* A record replaced, in one cell or in two. *)
Theorem two_records_move_twice_as_much c c' d v u T :
  of_cell c d v -> of_cell c' d u -> within joined (d + d) (plus T v) (plus T u).
Proof.
  intros V U; destruct (one_record_moves_one_cell c d v T V) as [V1 V2].
  destruct (one_record_moves_one_cell c' d u T U) as [U1 U2]; split.
  - apply (same _ joined_is_a_ball _ (plus (minus (plus T v) T) (minus T (plus T u)))).
    + intros i; unfold minus, plus; lia.
    + apply (adds _ joined_is_a_ball); assumption.
  - apply (same _ joined_is_a_ball _ (plus (minus (plus T u) T) (minus T (plus T v)))).
    + intros i; unfold minus, plus; lia.
    + apply (adds _ joined_is_a_ball); assumption.
Qed.

(* The least r is the sum of the cells' norms, each rounded up: what the cells' draws add up to. *)
Lemma total_grows r s n : (forall g, g < n -> r g <= s g) -> total r n <= total s n.
Proof.
  induction n; intros L; simpl; [lia |].
  assert (r n <= s n) by (apply L; lia); assert (total r n <= total s n) by auto; lia.
Qed.

Theorem ceilings_add_up v rs : (forall g, g < cells -> ceil_norm (K g) (part g v) (rs g)) ->
  ceil_norm joined v (total rs cells).
Proof.
  intros C; split.
  - exists rs; split; [lia |]; intros g L; apply (C g L).
  - intros s [ss [T P]]; apply Nat.le_trans with (total ss cells); [| exact T].
    apply total_grows; intros g L; destruct (C g L) as [_ M]; auto.
Qed.

Open Scope R_scope.

Theorem sums_by_cell_are_private c d v T y r r' k epsilon : of_cell c d v ->
  ceil_norm joined (minus y (plus T v)) r -> ceil_norm joined (minus y T) r' ->
  0 < k -> 0 < epsilon -> (0 < d)%nat ->
  probability k (epsilon / INR d) r <= exp epsilon * probability k (epsilon / INR d) r'.
Proof.
  intros V; apply (knorm_is_private _ _ _ _ _ _ _ _ _ joined_is_a_ball).
  exact (one_record_moves_one_cell c d v T V).
Qed.

Theorem sums_by_cell_are_private_when_one_is_replaced c c' d v u T y r r' k epsilon :
  of_cell c d v -> of_cell c' d u ->
  ceil_norm joined (minus y (plus T v)) r -> ceil_norm joined (minus y (plus T u)) r' ->
  0 < k -> 0 < epsilon -> (0 < d)%nat ->
  probability k (epsilon / INR (d + d)) r <= exp epsilon * probability k (epsilon / INR (d + d)) r'.
Proof.
  intros V U R R' P E D.
  apply (knorm_is_private joined (d + d) (plus T v) (plus T u) y r r' k epsilon);
    auto using joined_is_a_ball; [| lia].
  exact (two_records_move_twice_as_much c c' d v u T V U).
Qed.

End Joined.
