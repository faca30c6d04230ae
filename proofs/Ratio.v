(* Drawing one of finitely many candidates with odds nu(a) exp(-E(a)): the exponential mechanism,
   where E is epsilon times a loss over its sensitivity, and the K-norm gradient mechanism, where E
   is epsilon times the norm of a gradient over twice its Delta. The base measure nu, and a Delta
   that differs between candidates, may be anything that does not depend on the data. *)

From Coq Require Import Reals QArith List Lra Psatz.
Import ListNotations.
Open Scope R_scope.

Lemma within x d : Rabs x <= d -> - d <= x <= d.
Proof. unfold Rabs; destruct (Rcase_abs x); lra. Qed.

Section Candidates.
  Context {A : Type}.
  Variable candidates : list A.
  Variable nu : A -> R.
  Hypothesis base : forall a, 0 < nu a.

  Definition sum (f : A -> R) l := fold_right (fun a s => f a + s) 0 l.
  Definition odds (E : A -> R) a := nu a * exp (- E a).
  Definition probability E a := odds E a / sum (odds E) candidates.
  Definition event E (of : A -> bool) := sum (probability E) (filter of candidates).

  Hypothesis some : candidates <> [].

  Lemma odds_positive E a : 0 < odds E a.
  Proof. apply Rmult_lt_0_compat; [apply base | apply exp_pos]. Qed.

  Lemma sum_below f g l k : (forall a, f a <= k * g a) -> sum f l <= k * sum g l.
  Proof.
    intros H; induction l as [| a l IH]; simpl; [lra |].
    specialize (H a); rewrite Rmult_plus_distr_l; lra.
  Qed.

  Lemma sum_not_negative E l : 0 <= sum (odds E) l.
  Proof.
    induction l as [| a l IH]; simpl; [lra |]; pose proof (odds_positive E a); lra.
  Qed.

  Lemma total_positive E : 0 < sum (odds E) candidates.
  Proof.
    destruct candidates as [| a l]; [destruct some; reflexivity |]; simpl.
    pose proof (odds_positive E a); pose proof (sum_not_negative E l); lra.
  Qed.

  Lemma odds_move E E' h a : E' a <= E a + h -> odds E a <= exp h * odds E' a.
  Proof.
    intros H; unfold odds.
    replace (exp h * (nu a * exp (- E' a))) with (nu a * exp (h + - E' a))
      by (rewrite exp_plus; ring).
    apply Rmult_le_compat_l; [left; apply base |].
    assert (L : - E a <= h + - E' a) by lra.
    destruct L as [L | ->]; [left; apply exp_increasing; exact L | right; reflexivity].
  Qed.

  (* Up by at most [up] and down by at most [down], at every candidate. *)
  Lemma ratio E E' up down a :
    (forall b, E' b <= E b + up) -> (forall b, E b <= E' b + down) ->
    probability E a <= exp (up + down) * probability E' a.
  Proof.
    intros U D; unfold probability.
    pose proof (odds_move E E' up a (U a)) as O.
    pose proof (sum_below _ _ candidates (exp down) (fun b => odds_move E' E down b (D b))) as S.
    pose proof (total_positive E) as T; pose proof (total_positive E') as T'.
    pose proof (odds_positive E a); pose proof (odds_positive E' a).
    pose proof (exp_pos up); pose proof (exp_pos down).
    set (s := sum (odds E) candidates) in *; set (s' := sum (odds E') candidates) in *.
    rewrite exp_plus; apply Rmult_le_reg_r with (s * s'); [nra |].
    replace (odds E a / s * (s * s')) with (odds E a * s') by (field; lra).
    replace (exp up * exp down * (odds E' a / s') * (s * s'))
      with ((exp up * odds E' a) * (exp down * s)) by (field; lra).
    apply Rmult_le_compat; lra.
  Qed.

  (* What moves by at most epsilon / 2 either way is epsilon-DP. *)
  Theorem two_sided E E' epsilon a :
    (forall b, Rabs (E b - E' b) <= epsilon / 2) ->
    probability E a <= exp epsilon * probability E' a.
  Proof.
    intros H; replace epsilon with (epsilon / 2 + epsilon / 2) by field.
    apply ratio; intros b; specialize (H b); apply within in H; lra.
  Qed.

  (* What one record more only adds to needs no factor 2. *)
  Theorem one_sided E E' epsilon a :
    (forall b, E b <= E' b <= E b + epsilon) ->
    probability E a <= exp epsilon * probability E' a
    /\ probability E' a <= exp epsilon * probability E a.
  Proof.
    intros H; split.
    - replace epsilon with (epsilon + 0) by ring; apply ratio; intros b; specialize (H b); lra.
    - replace epsilon with (0 + epsilon) by ring; apply ratio; intros b; specialize (H b); lra.
  Qed.

  (* KNG: Delta may differ between candidates. *)
  Theorem kng_is_private (norm norm' Delta : A -> R) epsilon a : 0 < epsilon ->
    (forall b, 0 < Delta b) -> (forall b, Rabs (norm b - norm' b) <= Delta b) ->
    probability (fun b => epsilon / (2 * Delta b) * norm b) a
    <= exp epsilon * probability (fun b => epsilon / (2 * Delta b) * norm' b) a.
  Proof.
    intros E P M; apply two_sided; intros b; specialize (P b); specialize (M b).
    rewrite <- Rmult_minus_distr_l, Rabs_mult, Rabs_pos_eq.
    - replace (epsilon / 2) with (epsilon / (2 * Delta b) * Delta b) by (field; lra).
      apply Rmult_le_compat_l; [| exact M].
      left; apply Rdiv_lt_0_compat; lra.
    - left; apply Rdiv_lt_0_compat; lra.
  Qed.

  (* Exponential mechanism, a loss of sensitivity Delta, at rate epsilon / (2 Delta). *)
  Theorem exponential_is_private (loss loss' : A -> R) Delta epsilon a : 0 < epsilon -> 0 < Delta ->
    (forall b, Rabs (loss b - loss' b) <= Delta) ->
    probability (fun b => epsilon / (2 * Delta) * loss b) a
    <= exp epsilon * probability (fun b => epsilon / (2 * Delta) * loss' b) a.
  Proof.
    intros E P M; apply (kng_is_private loss loss' (fun _ => Delta)); auto.
  Qed.

  (* The same at twice the rate, where a record more only adds to the loss, by at most Delta. *)
  Theorem growing_loss_needs_no_factor_2 (loss loss' : A -> R) Delta epsilon a :
    0 < epsilon -> 0 < Delta -> (forall b, loss b <= loss' b <= loss b + Delta) ->
    let P := probability (fun b => epsilon / Delta * loss b) in
    let P' := probability (fun b => epsilon / Delta * loss' b) in
    P a <= exp epsilon * P' a /\ P' a <= exp epsilon * P a.
  Proof.
    intros E D M P P'; apply one_sided; intros b; specialize (M b).
    assert (0 < epsilon / Delta) by (apply Rdiv_lt_0_compat; assumption).
    assert (epsilon = epsilon / Delta * Delta) by (field; lra).
    nra.
  Qed.

  (* The log ratio varies by at most epsilon over the candidates: bounded range. *)
  Theorem bounded_range E E' epsilon a b :
    (forall d, Rabs (E d - E' d) <= epsilon / 2) ->
    probability E a / probability E' a <= exp epsilon * (probability E b / probability E' b).
  Proof.
    intros H.
    assert (R : forall d, probability E d / probability E' d
      = exp (E' d - E d) * (sum (odds E') candidates / sum (odds E) candidates)).
    { intros d; unfold probability, odds.
      replace (E' d - E d) with (- E d + - - E' d) by ring.
      rewrite exp_plus, (exp_Ropp (- E' d)).
      pose proof (base d); pose proof (exp_pos (- E' d)).
      pose proof (total_positive E); pose proof (total_positive E'); unfold odds in *.
      field; repeat split; lra. }
    rewrite !R, <- Rmult_assoc, <- exp_plus.
    apply Rmult_le_compat_r.
    - left; apply Rdiv_lt_0_compat; apply total_positive.
    - pose proof (H a) as Ha; pose proof (H b) as Hb; apply within in Ha, Hb.
      assert (L : E' a - E a <= epsilon + (E' b - E b)) by lra.
      destruct L as [L | ->]; [left; apply exp_increasing; exact L | right; reflexivity].
  Qed.

  (* What holds for every candidate holds for every set of them. *)
  Theorem events_follow E E' epsilon of :
    (forall a, probability E a <= exp epsilon * probability E' a) ->
    event E of <= exp epsilon * event E' of.
  Proof. intros H; apply sum_below; exact H. Qed.
End Candidates.

(* The rates, computed for the comparison with the program: whether a record is replaced, epsilon
   in tenths and the bound B of a regression; then the rate of least squares, whose loss is at most
   (1 + B)^2, and of the check loss at tau = 1/4, whose loss is at most 3/4 (1 + B). *)
Definition loss_rate (replace : bool) (epsilon Delta : Q) :=
  (epsilon / ((if replace then 2 else 1) * Delta))%Q.
Definition fraction (q : Q) := let r := Qred q in [Qnum r; Zpos (Qden r)].
Definition rates_table :=
  flat_map (fun replace : bool => flat_map (fun e => map (fun b =>
    let wide := (1 + inject_Z b)%Q in
    [(if replace then 1 else 0)%Z; Zpos e; b]
    ++ fraction (loss_rate replace (Zpos e # 10) (wide * wide))
    ++ fraction (loss_rate replace (Zpos e # 10) ((3 # 4) * wide)))
    [1; 2; 10]%Z) [1; 5; 10; 30]%positive) [true; false].
