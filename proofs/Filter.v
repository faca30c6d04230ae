(* The account as a privacy filter. An analyst chooses each release after seeing the answers of
   those before. What a release is charged depends on the past and the request; it is refused where
   it would pass the total. Whatever the analyst does, all answers together lose at most the total:
   in pure epsilon, and in zCDP. *)

From Coq Require Import Reals QArith ZArith List Lia Lra Psatz.
Import ListNotations.
Open Scope R_scope.

Section Filter.
  Context {Answer : Type}.
  Definition past := list Answer.

  (* The analyst and the account: what the next release is charged, and whether there is none, be
     it that nothing is asked or that it is refused. *)
  Variable charge : past -> R.
  Variable ends : past -> bool.
  Variable total : R.

  Fixpoint spent (seen : past) :=
    match seen with [] => 0 | _ :: before => spent before + charge before end.

  Hypothesis never_negative : forall seen, 0 <= charge seen.
  Hypothesis no_overspending : forall seen, ends seen = false -> spent seen + charge seen <= total.

  (* A past that can have been: every release in it was allowed. *)
  Fixpoint can_be (seen : past) :=
    match seen with [] => True | _ :: before => ends before = false /\ can_be before end.

  Lemma spent_within seen : 0 <= total -> can_be seen -> spent seen <= total.
  Proof. destruct seen; simpl; [trivial | intros _ [A _]; apply no_overspending, A]. Qed.

  Section Pure.
    (* The probability of the next answer, under D and under D'. *)
    Variables here there : past -> Answer -> R.
    Hypothesis proper : forall seen y, 0 <= here seen y /\ 0 <= there seen y.
    Hypothesis private : forall seen y, ends seen = false ->
      here seen y <= exp (charge seen) * there seen y.

    Fixpoint transcript (draw : past -> Answer -> R) (seen : past) :=
      match seen with [] => 1 | y :: before => transcript draw before * draw before y end.

    Lemma transcript_not_negative draw seen : (forall seen y, 0 <= draw seen y) ->
      0 <= transcript draw seen.
    Proof.
      intros P; induction seen; simpl; [lra | apply Rmult_le_pos; [assumption | apply P]].
    Qed.

    Lemma transcripts_lose_what_is_spent seen : can_be seen ->
      transcript here seen <= exp (spent seen) * transcript there seen.
    Proof.
      induction seen as [| y before IH]; simpl; [rewrite exp_0; lra |].
      intros [A C]; specialize (IH C); rewrite exp_plus.
      replace (exp (spent before) * exp (charge before)
               * (transcript there before * there before y))
        with ((exp (spent before) * transcript there before)
              * (exp (charge before) * there before y)) by ring.
      apply Rmult_le_compat; try apply proper; [| exact IH | apply private; exact A].
      apply transcript_not_negative; intros; apply proper.
    Qed.

    Theorem pure_filter seen : 0 <= total -> can_be seen ->
      transcript here seen <= exp total * transcript there seen.
    Proof.
      intros T C; eapply Rle_trans; [apply transcripts_lose_what_is_spent; exact C |].
      apply Rmult_le_compat_r; [apply transcript_not_negative; intros; apply proper |].
      destruct (spent_within seen T C) as [L | ->];
        [left; apply exp_increasing; exact L | right; reflexivity].
    Qed.
  End Pure.

  Section Concentrated.
    (* [weight] is P(y)^alpha P'(y)^(1 - alpha) of the next answer y, of finitely many. Its sum is
       what the Renyi divergence of order alpha is made of: rho-zCDP bounds it by
       exp(alpha (alpha - 1) rho), and [order] is alpha (alpha - 1). *)
    Variable answers : list Answer.
    Variable weight : past -> Answer -> R.
    Variable order : R.
    Hypothesis proper : forall seen y, 0 <= weight seen y.
    Hypothesis above_one : 0 <= order.

    Definition sum (f : Answer -> R) := fold_right (fun y s => f y + s) 0 answers.

    Hypothesis private : forall seen, ends seen = false ->
      sum (weight seen) <= exp (order * charge seen).

    (* The same of all answers from a past on, of at most n releases. *)
    Fixpoint moment n (seen : past) :=
      match n with
      | O => 1
      | S n => if ends seen then 1 else sum (fun y => weight seen y * moment n (y :: seen))
      end.

    Lemma sum_below f g k : (forall y, 0 <= f y) -> (forall y, g y <= k) ->
      sum (fun y => f y * g y) <= sum f * k.
    Proof.
      intros F G; unfold sum; induction answers as [| y l IH]; simpl; [lra |].
      rewrite Rmult_plus_distr_r; apply Rplus_le_compat; [| exact IH].
      apply Rmult_le_compat_l; [apply F | apply G].
    Qed.

    Lemma exp_at_least_1 x : 0 <= x -> 1 <= exp x.
    Proof.
      intros [P | <-]; [left; rewrite <- exp_0; apply exp_increasing; exact P | rewrite exp_0; lra].
    Qed.

    Lemma moment_below n : forall seen, 0 <= total -> can_be seen ->
      moment n seen <= exp (order * (total - spent seen)).
    Proof.
      induction n as [| n IH]; intros seen T C; simpl.
      - apply exp_at_least_1; pose proof (spent_within seen T C); nra.
      - destruct (ends seen) eqn:E.
        + apply exp_at_least_1; pose proof (spent_within seen T C); nra.
        + eapply Rle_trans.
          * apply (sum_below (weight seen) (fun y => moment n (y :: seen))
              (exp (order * (total - spent seen - charge seen)))); [apply proper |].
            intros y; replace (total - spent seen - charge seen)
              with (total - spent (y :: seen)) by (simpl; ring).
            apply IH; [exact T | simpl; auto].
          * replace (order * (total - spent seen))
              with (order * charge seen + order * (total - spent seen - charge seen)) by ring.
            rewrite exp_plus; apply Rmult_le_compat_r; [left; apply exp_pos | auto].
    Qed.

    Theorem zcdp_filter n : 0 <= total -> moment n [] <= exp (order * total).
    Proof.
      intros T; pose proof (moment_below n [] T I) as M; simpl in M.
      rewrite Rminus_0_r in M; exact M.
    Qed.
  End Concentrated.
End Filter.

(* What is charged is a whole number of units, rounded up: never less than the cost. *)
Definition units (numerator denominator : Z) := (- ((- numerator) / denominator))%Z.

Theorem charges_are_rounded_up n d : (0 < d)%Z ->
  (n <= units n d * d)%Z /\ ((units n d - 1) * d < n)%Z.
Proof.
  intros P; unfold units.
  pose proof (Z.div_mod (- n) d ltac:(lia)); pose proof (Z.mod_pos_bound (- n) d P); nia.
Qed.

(* Computed for the comparison with the program: a cost as a fraction of a unit, and the charge. *)
Definition units_table :=
  flat_map (fun n => map (fun d => [n; d; units n d]) [1; 2; 3; 7; 10]%Z)
    (map Z.of_nat (seq 0 12)).
