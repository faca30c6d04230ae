(* Several quantiles in one draw. Sorted points cut the records into cells: the score is the sum
   over the cells of |records in the cell - n g|, g being the gap between the cell's two levels. *)

From Coq Require Import ZArith QArith Qabs Qminmax List Lqa Lia.
Import ListNotations.
Open Scope Q_scope.

Fixpoint sum (l : list Q) := match l with [] => 0 | g :: r => g + sum r end.

(* The gaps and the counts of the cells, in their order. *)
Fixpoint score (n : Q) (gaps counts : list Q) :=
  match gaps, counts with
  | g :: gs, c :: cs => Qabs (c - n * g) + score n gs cs
  | _, _ => 0
  end.

(* One record more, or less, in cell b. *)
Fixpoint bump (by_ : Q) (b : nat) (counts : list Q) :=
  match counts, b with
  | [], _ => []
  | c :: cs, O => c + by_ :: cs
  | c :: cs, S b => c :: bump by_ b cs
  end.

Definition proper gaps := Forall (fun g => 0 <= g) gaps /\ sum gaps == 1.

Fixpoint smallest (gaps : list Q) :=
  match gaps with [] => 1 | [g] => g | g :: gs => Qmin g (smallest gs) end.

Definition joint_delta (replace : bool) gaps :=
  if replace then 2 else 2 * (1 - smallest gaps).

Lemma abs_cases x : (0 <= x /\ Qabs x == x) \/ (x <= 0 /\ Qabs x == - x).
Proof.
  destruct (Qlt_le_dec x 0); [right | left]; split; try lra;
    [apply Qabs_neg | apply Qabs_pos]; lra.
Qed.

Lemma abs_moves s t d : - d <= s - t <= d -> - d <= Qabs s - Qabs t <= d.
Proof.
  intros H; destruct (abs_cases s) as [[? E] | [? E]], (abs_cases t) as [[? F] | [? F]]; lra.
Qed.

Lemma sum_not_negative gaps : Forall (fun g => 0 <= g) gaps -> 0 <= sum gaps.
Proof. intros G; induction G; simpl; lra. Qed.

(* Cells without the new record: each is off by its own gap, as n grows by one. *)
Lemma others_move n gaps : Forall (fun g => 0 <= g) gaps -> forall counts,
  - sum gaps <= score (n + 1) gaps counts - score n gaps counts <= sum gaps.
Proof.
  intros G; induction G as [| g gs P G IH]; intros [| c cs]; cbn [score sum]; try lra.
  - pose proof (sum_not_negative gs G); lra.
  - specialize (IH cs); assert (M := abs_moves (c - (n + 1) * g) (c - n * g) g); lra.
Qed.

Lemma added_moves n gaps : Forall (fun g => 0 <= g <= 1) gaps -> forall counts b,
  (b < length gaps)%nat -> length counts = length gaps ->
  let d := 1 - nth b gaps 0 + (sum gaps - nth b gaps 0) in
  - d <= score (n + 1) gaps (bump 1 b counts) - score n gaps counts <= d.
Proof.
  intros G; induction G as [| g gs P G IH]; intros [| c cs] b B L; simpl in B, L; try lia.
  assert (N : Forall (fun g => 0 <= g) gs) by (eapply Forall_impl; [| exact G]; simpl; intros; lra).
  destruct b as [| b]; cbn [bump score sum nth].
  - pose proof (others_move n gs N cs).
    assert (M := abs_moves (c + 1 - (n + 1) * g) (c - n * g) (1 - g)); lra.
  - specialize (IH cs b ltac:(lia) ltac:(lia)); cbv zeta in IH.
    assert (M := abs_moves (c - (n + 1) * g) (c - n * g) g); lra.
Qed.

Lemma smallest_is_least gaps b : (b < length gaps)%nat -> smallest gaps <= nth b gaps 0.
Proof.
  revert b; induction gaps as [| g [| h gs] IH]; intros b B; [simpl in B; lia | |].
  - destruct b; simpl in *; [lra | lia].
  - cbn [smallest]; destruct b as [| b]; cbn [nth].
    + apply Q.le_min_l.
    + eapply Qle_trans; [apply Q.le_min_r | apply IH; simpl in *; lia].
Qed.

Lemma each_at_most_the_sum gaps : Forall (fun g => 0 <= g) gaps ->
  Forall (fun g => 0 <= g <= sum gaps) gaps.
Proof.
  intros G; induction G as [| g gs P G IH]; constructor; cbn [sum].
  - pose proof (sum_not_negative gs G); lra.
  - eapply Forall_impl; [| exact IH]; simpl; intros; lra.
Qed.

Theorem one_record_more_moves_the_joint_score n gaps counts b : proper gaps ->
  (b < length gaps)%nat -> length counts = length gaps ->
  Qabs (score (n + 1) gaps (bump 1 b counts) - score n gaps counts) <= joint_delta false gaps.
Proof.
  intros [P S] B L; apply Qabs_Qle_condition; unfold joint_delta.
  assert (W : Forall (fun g => 0 <= g <= 1) gaps).
  { eapply Forall_impl; [| exact (each_at_most_the_sum gaps P)]; simpl; intros; lra. }
  pose proof (added_moves n gaps W counts b B L) as M; cbv zeta in M.
  pose proof (smallest_is_least gaps b B); lra.
Qed.

Lemma bump_moves n by_ gaps : forall counts b,
  - Qabs by_ <= score n gaps (bump by_ b counts) - score n gaps counts <= Qabs by_.
Proof.
  pose proof (Qabs_nonneg by_).
  induction gaps as [| g gs IH]; intros [| c cs] [| b]; cbn [bump score]; try lra.
  - assert (M := abs_moves (c + by_ - n * g) (c - n * g) (Qabs by_)).
    destruct (abs_cases by_) as [[? E] | [? E]]; lra.
  - specialize (IH cs b); lra.
Qed.

(* A replaced record leaves one cell and enters another; the number of records stays. *)
Theorem replacing_moves_the_joint_score n gaps counts b c :
  Qabs (score n gaps (bump 1 c (bump (-(1)) b counts)) - score n gaps counts)
  <= joint_delta true gaps.
Proof.
  apply Qabs_Qle_condition; unfold joint_delta.
  pose proof (bump_moves n 1 gaps (bump (-(1)) b counts) c) as M.
  pose proof (bump_moves n (-(1)) gaps counts b) as M'.
  change (Qabs 1) with 1 in M; change (Qabs (-(1))) with 1 in M'; lra.
Qed.

(* For the median no smaller number would do: an empty data set, and one record. *)
Theorem joint_delta_is_attained : exists n gaps counts b, proper gaps /\
  Qabs (score (n + 1) gaps (bump 1 b counts) - score n gaps counts) == joint_delta false gaps.
Proof.
  exists 0, [1 # 2; 1 # 2], [0; 0], 0%nat; split; [| reflexivity].
  split; [repeat constructor; discriminate | reflexivity].
Qed.

(* Computed for the comparison with the program: whether a record is replaced, and two levels in
   twelfths, the second 0 where there is one level only. *)
Definition fraction (q : Q) := let r := Qred q in [Qnum r; Zpos (Qden r)].
Definition gaps_of (a b : Z) : list Q :=
  if (b =? 0)%Z then [a # 12; (12 - a) # 12] else [a # 12; (b - a) # 12; (12 - b) # 12].
Definition joint_table :=
  flat_map (fun replace : bool => flat_map (fun a => flat_map (fun b =>
    if ((b =? 0) || (a <? b))%Z%bool
    then [[if replace then 1%Z else 0%Z; a; b] ++ fraction (joint_delta replace (gaps_of a b))]
    else []) [0; 2; 5; 6; 9; 11]%Z) [1; 3; 4; 6; 10]%Z) [true; false].
