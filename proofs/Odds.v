(* The odds by which radii are kept are probabilities: a draw that keeps with odds above one would
   have another law than the one stated. A radius r is proposed as a sum of m + 1 geometric numbers,
   so with odds (r + 1) (r + 2) ... (r + m). *)

From Coq Require Import ZArith QArith Qround List Lia Lqa.
Import ListNotations.
Open Scope Z_scope.

(* (r + 1) ... (r + m) *)
Fixpoint rising r m := match m with O => 1 | S m => rising r m * (r + Z.of_nat (S m)) end.

Lemma rising_positive r m : 0 <= r -> 0 < rising r m.
Proof. intros R; induction m; cbn [rising]; [lia | apply Z.mul_pos_pos; lia]. Qed.

(* The cube: (2 r + 1)^m points, kept with odds (2 r + 1)^m / (2^m (r + 1) ... (r + m)). *)
Theorem cube_odds_at_most_one r m : 0 <= r ->
  0 < (2 * r + 1) ^ Z.of_nat m <= 2 ^ Z.of_nat m * rising r m.
Proof.
  intros R; induction m as [| m IH]; [simpl; lia |].
  rewrite Nat2Z.inj_succ, !Z.pow_succ_r by lia; cbn [rising].
  set (p := (2 * r + 1) ^ Z.of_nat m) in *; set (q := 2 ^ Z.of_nat m * rising r m) in *.
  replace (2 * 2 ^ Z.of_nat m * (rising r m * (r + Z.of_nat (S m))))
    with (2 * (r + Z.of_nat (S m)) * q) by (unfold q; ring).
  split; [apply Z.mul_pos_pos; lia | apply Z.mul_le_mono_nonneg; lia].
Qed.

(* Points of the body itself: kept with odds (r + 1)^m / ((r + 1) ... (r + m)). *)
Theorem body_odds_at_most_one r m : 0 <= r -> 0 < (r + 1) ^ Z.of_nat m <= rising r m.
Proof.
  intros R; induction m as [| m IH]; [simpl; lia |].
  rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia; cbn [rising]; rewrite (Z.mul_comm (rising r m)).
  split; [apply Z.mul_pos_pos; lia | apply Z.mul_le_mono_nonneg; lia].
Qed.

(* A box of half-widths w >= 1/2: its points, over the product of all 2 w and all r + j. *)
Open Scope Q_scope.
Definition side (r : Z) (w : Q) := inject_Z (2 * Qfloor (w * inject_Z r) + 1).
Fixpoint points r (widths : list Q) :=
  match widths with [] => 1 | w :: ws => side r w * points r ws end.
Fixpoint envelope r (widths : list Q) :=
  match widths with
  | [] => 1
  | w :: ws => 2 * w * inject_Z (r + Z.of_nat (length (w :: ws))) * envelope r ws
  end.

Lemma side_below r w : (0 <= r)%Z -> 1 # 2 <= w -> 0 <= side r w <= 2 * w * inject_Z (r + 1).
Proof.
  intros R W; unfold side; rewrite !inject_Z_plus, inject_Z_mult.
  pose proof (Qfloor_le (w * inject_Z r)) as L.
  assert (P : 0 <= inject_Z r) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; exact R).
  assert (F : (0 <= Qfloor (w * inject_Z r))%Z).
  { apply (Z.le_trans _ (Qfloor 0)); [reflexivity |]; apply Qfloor_resp_le.
    apply Qmult_le_0_compat; lra. }
  rewrite Zle_Qle in F; change (inject_Z 0) with 0 in F.
  change (inject_Z 2) with 2; change (inject_Z 1) with 1; split; [lra |].
  setoid_replace (2 * w * (inject_Z r + 1)) with (2 * (w * inject_Z r) + 2 * w) by ring; lra.
Qed.

Lemma wider r n w : 1 # 2 <= w -> 2 * w * inject_Z (r + 1) <= 2 * w * inject_Z (r + Z.of_nat (S n)).
Proof.
  intros W; apply Qmult_le_l; [lra |]; rewrite <- Zle_Qle; lia.
Qed.

Theorem box_odds_at_most_one r widths : (0 <= r)%Z -> Forall (fun w => 1 # 2 <= w) widths ->
  0 <= points r widths <= envelope r widths.
Proof.
  intros R G; induction G as [| w ws W G IH]; cbn [points envelope]; [lra |].
  pose proof (side_below r w R W) as [O O']; pose proof (wider r (length ws) w W) as L.
  cbn [length]; set (t := 2 * w * inject_Z (r + Z.of_nat (S (length ws)))) in *.
  split; [apply Qmult_le_0_compat; lra |].
  apply (Qle_trans _ (t * points r ws)).
  - apply Qmult_le_compat_r; lra.
  - rewrite !(Qmult_comm t); apply Qmult_le_compat_r; lra.
Qed.
