(* The K-norm gradient mechanism for squared loss with one coefficient theta: a record (x, y), both
   from -1 to 1, contributes 2 (x theta - y) x to the gradient. *)

From Coq Require Import Reals Lra Psatz.
Open Scope R_scope.

Definition contribution theta x y := 2 * (x * theta - y) * x.

(* Delta(theta), with rho the size of theta. *)
Definition delta rho :=
  if Rle_dec rho (1 / 2) then 4 else 2 * (1 + rho) + / (2 * rho).

(* The least contribution, where theta is not negative. *)
Definition least rho := if Rle_dec rho (1 / 2) then 2 * rho - 2 else - / (2 * rho).

Section Positive.

Variable rho : R.
Hypothesis not_negative : 0 <= rho.

Lemma half_inverse : 1 / 2 < rho -> 0 < / (2 * rho) < 1 /\ rho * / (2 * rho) = 1 / 2.
Proof.
  intros H; split; [| field; lra].
  split; [apply Rinv_0_lt_compat; lra |].
  rewrite <- Rinv_1; apply Rinv_lt_contravar; lra.
Qed.

Lemma product_is_at_most x y : -1 <= x <= 1 -> -1 <= y <= 1 ->
  - Rabs x <= y * x <= Rabs x.
Proof.
  intros X Y; unfold Rabs; destruct (Rcase_abs x); split; nra.
Qed.

Lemma square_of_size x : x * x = Rabs x * Rabs x.
Proof. unfold Rabs; destruct (Rcase_abs x); ring. Qed.

Lemma size_is_a_share x : -1 <= x <= 1 -> 0 <= Rabs x <= 1.
Proof. intros X; split; [apply Rabs_pos | unfold Rabs; destruct (Rcase_abs x); lra]. Qed.

Theorem contribution_is_at_most x y : -1 <= x <= 1 -> -1 <= y <= 1 ->
  contribution rho x y <= 2 * (1 + rho).
Proof.
  intros X Y; pose proof (product_is_at_most _ _ X Y) as [L _].
  pose proof (square_of_size x); pose proof (size_is_a_share _ X).
  unfold contribution.
  replace (2 * (x * rho - y) * x) with (2 * rho * (x * x) - 2 * (y * x)) by ring.
  assert (x * x <= 1) by nra; nra.
Qed.

Theorem contribution_is_at_least x y : -1 <= x <= 1 -> -1 <= y <= 1 ->
  least rho <= contribution rho x y.
Proof.
  intros X Y; pose proof (product_is_at_most _ _ X Y) as [_ U].
  pose proof (square_of_size x) as S; pose proof (size_is_a_share _ X) as A.
  unfold contribution, least.
  replace (2 * (x * rho - y) * x) with (2 * rho * (x * x) - 2 * (y * x)) by ring.
  rewrite S; set (a := Rabs x) in *.
  assert (2 * rho * (a * a) - 2 * a <= 2 * rho * (a * a) - 2 * (y * x)) by lra.
  destruct (Rle_dec rho (1 / 2)) as [small | large].
  - assert (rho * (1 + a) <= 1 / 2 * 2) by (apply Rmult_le_compat; lra).
    assert (0 <= (1 - a) * (1 - rho * (1 + a))) by (apply Rmult_le_pos; lra).
    replace ((1 - a) * (1 - rho * (1 + a))) with (1 - a - rho + rho * (a * a)) in * by ring; lra.
  - assert (G : 1 / 2 < rho) by lra; destruct (half_inverse G) as [[P _] Q].
    set (h := / (2 * rho)) in *.
    assert (0 <= 2 * rho * ((a - h) * (a - h))) by (apply Rmult_le_pos; [lra | apply Rle_0_sqr]).
    assert (O : 2 * rho * h = 1) by lra.
    replace (2 * rho * ((a - h) * (a - h)))
      with (2 * rho * (a * a) - 2 * a * (2 * rho * h) + 2 * rho * h * h) in * by ring.
    rewrite O in *; lra.
Qed.

Lemma delta_is_the_range : delta rho = 2 * (1 + rho) - least rho.
Proof. unfold delta, least; destruct (Rle_dec rho (1 / 2)); ring. Qed.

Lemma range_of_positive x y x' y' :
  -1 <= x <= 1 -> -1 <= y <= 1 -> -1 <= x' <= 1 -> -1 <= y' <= 1 ->
  contribution rho x y - contribution rho x' y' <= delta rho.
Proof.
  intros X Y X' Y'; rewrite delta_is_the_range.
  pose proof (contribution_is_at_most _ _ X Y); pose proof (contribution_is_at_least _ _ X' Y').
  lra.
Qed.

(* Both ends are contributions of records. *)
Theorem delta_of_one_coefficient_is_attained : exists x' y', -1 <= x' <= 1 /\ -1 <= y' <= 1 /\
  contribution rho 1 (-1) - contribution rho x' y' = delta rho.
Proof.
  unfold contribution, delta; destruct (Rle_dec rho (1 / 2)) as [small | large].
  - exists 1, 1; repeat split; lra.
  - assert (H : 1 / 2 < rho) by lra; destruct (half_inverse H) as [[P L] Q].
    exists (/ (2 * rho)), 1; repeat split; try lra.
    set (h := / (2 * rho)) in *.
    replace (2 * (h * rho - 1) * h) with (2 * (rho * h) * h - 2 * h) by ring.
    rewrite Q; lra.
Qed.

Theorem delta_is_no_less_than_one_record x y : -1 <= x <= 1 -> -1 <= y <= 1 ->
  Rabs (contribution rho x y) <= delta rho.
Proof.
  intros X Y; pose proof (contribution_is_at_most _ _ X Y).
  pose proof (contribution_is_at_least _ _ X Y).
  assert (least rho <= 0 /\ - (2 * (1 + rho)) <= least rho).
  { unfold least; destruct (Rle_dec rho (1 / 2)); [lra |].
    assert (G : 1 / 2 < rho) by lra; destruct (half_inverse G) as [[P L] _]; lra. }
  rewrite delta_is_the_range; apply Rabs_le; lra.
Qed.

Theorem delta_is_at_most_that_of_several : delta rho <= 4 * (1 + rho).
Proof.
  unfold delta; destruct (Rle_dec rho (1 / 2)) as [small | large]; [lra |].
  assert (H : 1 / 2 < rho) by lra; destruct (half_inverse H) as [[P L] _]; lra.
Qed.

(* As it is computed: in units of Delta_0 = 4, its part of 1 + rho. *)
Theorem delta_in_units_of_4 : 1 / 2 < rho -> delta rho = 4 * ((1 + rho) / 2 + 1 / (8 * rho)).
Proof.
  intros G; unfold delta; destruct (Rle_dec rho (1 / 2)); [lra | field; lra].
Qed.

Theorem the_two_forms_meet : 2 * (1 + 1 / 2) + / (2 * (1 / 2)) = 4.
Proof. field. Qed.

End Positive.

Lemma opposite theta x y : contribution (- theta) x y = - contribution theta x (- y).
Proof. unfold contribution; ring. Qed.

Theorem a_record_replaced_moves_the_gradient_of_one_coefficient theta x y x' y' :
  -1 <= x <= 1 -> -1 <= y <= 1 -> -1 <= x' <= 1 -> -1 <= y' <= 1 ->
  Rabs (contribution theta x y - contribution theta x' y') <= delta (Rabs theta).
Proof.
  intros X Y X' Y'; unfold Rabs at 2; destruct (Rcase_abs theta) as [negative | positive].
  - assert (P : 0 <= - theta) by lra.
    pose proof (range_of_positive _ P x (- y) x' (- y')) as U.
    pose proof (range_of_positive _ P x' (- y') x (- y)) as L.
    rewrite !opposite, !Ropp_involutive in U; rewrite !opposite, !Ropp_involutive in L.
    apply Rabs_le; lra.
  - assert (P : 0 <= theta) by lra.
    pose proof (range_of_positive _ P x y x' y') as U.
    pose proof (range_of_positive _ P x' y' x y) as L.
    apply Rabs_le; lra.
Qed.
