(* Objective perturbation: theta minimises a sum of losses, a ridge gamma and a random tilt V, so V
   is minus the gradient at theta, and theta's density is V's times the determinant of the Hessian.
   Vectors have d entries; C is the Hessian of what two neighbours share, ridge included, and a record
   adds w v v', with w from 0 to 1: its row is v, and w its curvature there. *)

From Coq Require Import Reals List Lra Psatz.
Import ListNotations.
Open Scope R_scope.

Definition vector := nat -> R.

Section Determinant.

Variable d : nat.

Fixpoint upto (f : nat -> R) n := match n with O => 0 | S m => upto f m + f m end.
Definition dot (u v : vector) := upto (fun i => u i * v i) d.
Definition moved (x : vector) c (y : vector) : vector := fun i => x i + c * y i.

Lemma upto_moves f g c n : upto (fun i => f i + c * g i) n = upto f n + c * upto g n.
Proof. induction n; simpl; [ring | rewrite IHn; ring]. Qed.

Lemma upto_same f g n : (forall i, f i = g i) -> upto f n = upto g n.
Proof. intros E; induction n; simpl; [reflexivity | rewrite IHn, E; reflexivity]. Qed.

Lemma upto_not_negative f n : (forall i, 0 <= f i) -> 0 <= upto f n.
Proof. intros P; induction n; simpl; [lra | specialize (P n); lra]. Qed.

Lemma dot_swaps u v : dot u v = dot v u.
Proof. apply upto_same; intros i; ring. Qed.

Lemma dot_moves u x c y : dot u (moved x c y) = dot u x + c * dot u y.
Proof.
  unfold dot, moved; rewrite <- upto_moves; apply upto_same; intros i; ring.
Qed.

Lemma dot_not_negative u : 0 <= dot u u.
Proof. apply upto_not_negative; intros i; nra. Qed.

Lemma dot_of_same u v u' v' : (forall i, u i = u' i) -> (forall i, v i = v' i) ->
  dot u v = dot u' v'.
Proof. intros E F; apply upto_same; intros i; rewrite E, F; reflexivity. Qed.

(* C is linear, and no less than gamma times the identity, of which gamma > 0 is the ridge. *)
Variable C : vector -> vector.
Variable gamma : R.
Hypothesis linear : forall x c y i, C (moved x c y) i = C x i + c * C y i.
Hypothesis convex : forall x, gamma * dot x x <= dot x (C x).
Hypothesis some_ridge : 0 < gamma.

(* A record's row v, and u with C u = v. *)
Definition solves u v := forall i, C u i = v i.
Definition with_record w v (x : vector) : vector := fun i => C x i + w * dot v x * v i.
Definition shear w u v (x : vector) : vector := moved x (w * dot v x) u.

(* A record more is a shear, and then C. *)
Theorem a_record_is_a_shear w u v x i : solves u v ->
  with_record w v x i = C (shear w u v x) i.
Proof. intros S; unfold with_record, shear; rewrite linear, S; reflexivity. Qed.

(* The shear leaves a hyperplane alone, and stretches one direction: by its determinant. *)
Theorem the_hyperplane_stays w u v x i : dot v x = 0 -> shear w u v x i = x i.
Proof. intros Z; unfold shear, moved; rewrite Z; ring. Qed.

Theorem one_direction_is_stretched w u v i : shear w u v u i = (1 + w * dot v u) * u i.
Proof. unfold shear, moved; ring. Qed.

Theorem leverage_is_bounded u v : solves u v -> 0 <= dot v u /\ gamma * dot v u <= dot v v.
Proof.
  intros S.
  assert (F : dot u (C u) = dot v u).
  { rewrite (dot_swaps v u); apply dot_of_same; auto. }
  pose proof (convex u) as L; rewrite F in L; pose proof (dot_not_negative u) as N.
  split; [nra |].
  pose proof (dot_not_negative (moved v (- gamma) u)) as Q.
  rewrite dot_moves, dot_swaps, dot_moves in Q.
  rewrite (dot_swaps (moved v (- gamma) u) u), dot_moves, (dot_swaps u v) in Q; nra.
Qed.

(* The ridge that is right: lambda / (exp(e) - 1), e being what the determinant may take. *)
Theorem stretch_is_bounded w u v lambda e : solves u v -> 0 <= w <= 1 -> dot v v <= lambda ->
  0 < e -> lambda / (exp e - 1) <= gamma -> 1 <= 1 + w * dot v u <= exp e.
Proof.
  intros S W L P G; destruct (leverage_is_bounded u v S) as [N B].
  assert (X : 0 < exp e - 1) by (pose proof (exp_ineq1 e); lra).
  assert (Y : lambda <= gamma * (exp e - 1)).
  { apply Rmult_le_reg_r with (/ (exp e - 1)); [apply Rinv_0_lt_compat; exact X |].
    replace (gamma * (exp e - 1) * / (exp e - 1)) with gamma by (field; lra); exact G. }
  assert (R : dot v u <= exp e - 1) by (apply Rmult_le_reg_l with gamma; lra).
  nra.
Qed.

(* Of a determinant these four properties are used, and nothing else. *)
Variable det : (vector -> vector) -> R.
Hypothesis det_of_same : forall A B, (forall x i, A x i = B x i) -> det A = det B.
Hypothesis det_of_product : forall A B, det (fun x => A (B x)) = det A * det B.
Hypothesis det_of_shear : forall w u v, det (shear w u v) = 1 + w * dot v u.
Hypothesis det_of_C : 0 < det C.

Theorem determinant_of_a_record_more w u v : solves u v ->
  det (with_record w v) = det C * (1 + w * dot v u).
Proof.
  intros S; rewrite (det_of_same _ (fun x => C (shear w u v x))).
  - rewrite det_of_product, det_of_shear; reflexivity.
  - intros x i; apply a_record_is_a_shear; exact S.
Qed.

(* A record replaced; a record that comes or goes is one with w = 0. *)
Theorem jacobians_differ_by_a_bounded_factor w u v w' u' v' lambda e :
  solves u v -> solves u' v' -> 0 <= w <= 1 -> 0 <= w' <= 1 ->
  dot v v <= lambda -> dot v' v' <= lambda -> 0 < e -> lambda / (exp e - 1) <= gamma ->
  0 < det (with_record w' v') /\
  det (with_record w v) <= exp e * det (with_record w' v').
Proof.
  intros S S' W W' L L' P G.
  rewrite (determinant_of_a_record_more w u v S), (determinant_of_a_record_more w' u' v' S').
  pose proof (stretch_is_bounded w u v lambda e S W L P G).
  pose proof (stretch_is_bounded w' u' v' lambda e S' W' L' P G).
  pose proof (exp_pos e); split; [nra |].
  rewrite <- Rmult_assoc, (Rmult_comm (exp e)), Rmult_assoc.
  apply Rmult_le_compat_l; [lra | nra].
Qed.

End Determinant.

(* Printed is exp(epsilon (q - 1)) - 1. *)
Theorem printed_ridge_is_negative lambda epsilon q : 0 < lambda -> 0 < epsilon -> q < 1 ->
  lambda / (exp (epsilon * (q - 1)) - 1) < 0.
Proof.
  intros L P Q; assert (X : exp (epsilon * (q - 1)) < exp 0) by (apply exp_increasing; nra).
  rewrite exp_0 in X.
  unfold Rdiv; assert (I : / (exp (epsilon * (q - 1)) - 1) < 0) by (apply Rinv_lt_0_compat; lra).
  nra.
Qed.

(* The densities at one theta: of tilts whose norms differ by Delta at most, and of Jacobians. *)
Theorem tilt_and_jacobian_spend_epsilon epsilon q Delta N N' J J' :
  0 < Delta -> 0 <= epsilon * q -> N' <= N + Delta -> 0 <= J' ->
  J <= exp (epsilon * (1 - q)) * J' ->
  exp (- (epsilon * q / Delta * N)) * J <=
  exp epsilon * (exp (- (epsilon * q / Delta * N')) * J').
Proof.
  intros D Q M P B.
  replace (exp epsilon) with (exp (epsilon * q) * exp (epsilon * (1 - q)))
    by (rewrite <- exp_plus; f_equal; ring).
  assert (T : exp (- (epsilon * q / Delta * N)) <=
              exp (epsilon * q) * exp (- (epsilon * q / Delta * N'))).
  { rewrite <- exp_plus.
    assert (L : - (epsilon * q / Delta * N) <= epsilon * q + - (epsilon * q / Delta * N')).
    { assert (0 <= epsilon * q / Delta)
        by (apply Rmult_le_pos; [exact Q | left; apply Rinv_0_lt_compat; exact D]).
      replace (epsilon * q) with (epsilon * q / Delta * Delta) at 2 by (field; lra); nra. }
    destruct L as [L | ->]; [left; apply exp_increasing; exact L | right; reflexivity]. }
  replace (exp (epsilon * q) * exp (epsilon * (1 - q)) *
           (exp (- (epsilon * q / Delta * N')) * J'))
    with ((exp (epsilon * q) * exp (- (epsilon * q / Delta * N'))) *
          (exp (epsilon * (1 - q)) * J')) by ring.
  pose proof (exp_pos (- (epsilon * q / Delta * N))).
  pose proof (exp_pos (epsilon * (1 - q))).
  apply Rle_trans with (exp (- (epsilon * q / Delta * N)) * (exp (epsilon * (1 - q)) * J')).
  - apply Rmult_le_compat_l; lra.
  - apply Rmult_le_compat_r; [nra | exact T].
Qed.

(* Huber's loss: its derivative is the tilt, cut to a threshold on both sides. *)

Definition cut k t := Rmax (- k) (Rmin k t).

Ltac by_sides := unfold cut, Rmax, Rmin in *; repeat destruct (Rle_dec _ _); try lra.

Theorem cut_is_within_its_threshold k t : 0 <= k -> Rabs (cut k t) <= k.
Proof. intros K; apply Rabs_le; by_sides. Qed.

Theorem cut_is_no_longer_than_its_tilt k t : 0 <= k -> Rabs (cut k t) <= Rabs t.
Proof. intros K; unfold Rabs; repeat destruct (Rcase_abs _); by_sides. Qed.

(* So a curvature is from 0 to 1 wherever there is one, and the gradient is Lipschitz where not. *)
Theorem cut_rises_no_faster_than_its_tilt k t s : 0 <= k -> t <= s ->
  0 <= cut k s - cut k t <= s - t.
Proof. intros K L; by_sides. Qed.

Theorem slopes_of_cut_are_curvatures k t s : 0 <= k -> t < s ->
  0 <= (cut k s - cut k t) / (s - t) <= 1.
Proof.
  intros K L; pose proof (cut_rises_no_faster_than_its_tilt k t s K (Rlt_le _ _ L)) as [A B].
  split; [apply Rmult_le_pos; [exact A | left; apply Rinv_0_lt_compat; lra] |].
  apply Rmult_le_reg_r with (s - t); [lra |].
  replace ((cut k s - cut k t) / (s - t) * (s - t)) with (cut k s - cut k t) by (field; lra); lra.
Qed.

(* A coordinate of a record's gradient: its weight, the cut tilt and the row's entry. *)
Definition slope k (r : R * R * R) := match r with (p, t, x) => p * cut k t * x end.
Definition allowed (r : R * R * R) := match r with (p, t, x) => 0 <= p <= 1 /\ Rabs x <= 1 end.
Definition gradient k rs := fold_right (fun r s => slope k r + s) 0 rs.

Lemma product_within a b A B : Rabs a <= A -> Rabs b <= B -> Rabs (a * b) <= A * B.
Proof.
  intros L M; rewrite Rabs_mult; apply Rmult_le_compat; auto using Rabs_pos.
Qed.

Theorem slope_is_within_the_threshold k r : 0 <= k -> allowed r -> Rabs (slope k r) <= k.
Proof.
  intros K; destruct r as [[p t] x]; intros [P X]; simpl.
  replace k with (1 * k * 1) at 2 by ring.
  apply product_within; [apply product_within |]; auto using cut_is_within_its_threshold.
  apply Rabs_le; lra.
Qed.

(* The threshold, or the reach of tilts where that is smaller. *)
Theorem slope_is_within_the_reach k r reach : 0 <= k -> allowed r ->
  (match r with (_, t, _) => Rabs t <= reach end) -> Rabs (slope k r) <= Rmin k reach.
Proof.
  intros K A T; apply Rmin_glb; [apply slope_is_within_the_threshold; assumption |].
  destruct r as [[p t] x]; destruct A as [P X]; simpl.
  replace reach with (1 * reach * 1) by ring.
  apply product_within; [apply product_within |]; auto; [apply Rabs_le; lra |].
  apply Rle_trans with (Rabs t); auto using cut_is_no_longer_than_its_tilt.
Qed.

Lemma gradient_adds k rs ss : gradient k (rs ++ ss) = gradient k rs + gradient k ss.
Proof. induction rs as [| r rs IH]; simpl; [ring | rewrite IH; ring]. Qed.

Theorem a_record_more_moves_the_gradient k r before after : 0 <= k -> allowed r ->
  Rabs (gradient k (before ++ r :: after) - gradient k (before ++ after)) <= k.
Proof.
  intros K A; rewrite !gradient_adds; simpl.
  replace (_ - _) with (slope k r) by ring; apply slope_is_within_the_threshold; assumption.
Qed.

Theorem a_record_replaced_moves_the_gradient k r r' before after :
  0 <= k -> allowed r -> allowed r' ->
  Rabs (gradient k (before ++ r :: after) - gradient k (before ++ r' :: after)) <= 2 * k.
Proof.
  intros K A A'; rewrite !gradient_adds; simpl.
  replace (_ - _) with (slope k r + - slope k r') by ring.
  apply Rle_trans with (Rabs (slope k r) + Rabs (- slope k r')); [apply Rabs_triang |].
  rewrite Rabs_Ropp.
  pose proof (slope_is_within_the_threshold k r K A).
  pose proof (slope_is_within_the_threshold k r' K A'); lra.
Qed.

Theorem huber_delta_is_attained k : 0 <= k ->
  exists r r', allowed r /\ allowed r' /\ slope k r - slope k r' = 2 * k.
Proof.
  intros K; exists (1, k, 1), (1, - k, 1); simpl; repeat split; try lra;
    try (rewrite Rabs_right; lra); by_sides.
Qed.

(* Rows have entries from -1 to 1, targets too, and theta's entries are B at most together. *)

Theorem tilt_is_within_reach d (x theta : vector) y B : (forall i, Rabs (x i) <= 1) ->
  upto (fun i => Rabs (theta i)) d <= B -> Rabs y <= 1 -> Rabs (dot d x theta - y) <= 1 + B.
Proof.
  intros X T Y.
  assert (L : Rabs (dot d x theta) <= upto (fun i => Rabs (theta i)) d).
  { unfold dot; clear T; induction d as [| n IH]; simpl; [rewrite Rabs_R0; lra |].
    eapply Rle_trans; [apply Rabs_triang |].
    pose proof (product_within (x n) (theta n) 1 (Rabs (theta n)) (X n) (Rle_refl _)); lra. }
  unfold Rminus; eapply Rle_trans; [apply Rabs_triang |]; rewrite Rabs_Ropp; lra.
Qed.

Theorem row_is_no_longer_than_its_entries d (x : vector) : (forall i, Rabs (x i) <= 1) ->
  dot d x x <= INR d.
Proof.
  intros X; unfold dot; induction d as [| n IH]; [simpl; lra |].
  rewrite S_INR; simpl.
  assert (x n * x n <= 1).
  { specialize (X n); unfold Rabs in X; destruct (Rcase_abs (x n)); nra. }
  lra.
Qed.

(* Squared loss: the derivative is 2 t, and the curvature 2. *)
Theorem squared_gradients_differ t x t' x' reach : Rabs t <= reach -> Rabs t' <= reach ->
  Rabs x <= 1 -> Rabs x' <= 1 -> Rabs (2 * t * x - 2 * t' * x') <= 4 * reach.
Proof.
  intros T T' X X'.
  pose proof (product_within _ _ _ _ T X); pose proof (product_within _ _ _ _ T' X').
  replace (2 * t * x - 2 * t' * x') with (2 * (t * x) + - (2 * (t' * x'))) by ring.
  eapply Rle_trans; [apply Rabs_triang |].
  rewrite Rabs_Ropp, !Rabs_mult, (Rabs_right 2) by lra; rewrite <- !Rabs_mult; lra.
Qed.

(* The sigmoid: the derivative of a logistic loss, and of a check loss smoothed by a logistic kernel. *)

Definition sigmoid t := / (1 + exp (- t)).

Theorem sigmoid_is_a_share t : 0 < sigmoid t < 1.
Proof.
  unfold sigmoid; pose proof (exp_pos (- t)); split; [apply Rinv_0_lt_compat; lra |].
  rewrite <- Rinv_1; apply Rinv_lt_contravar; lra.
Qed.

Theorem sigmoid_curvature_is_at_most_a_quarter t : 0 < sigmoid t * (1 - sigmoid t) <= 1 / 4.
Proof.
  pose proof (sigmoid_is_a_share t); split; [nra |].
  pose proof (pow2_ge_0 (sigmoid t - 1 / 2)); nra.
Qed.

Lemma sigmoid_grows t s : t <= s -> sigmoid t <= sigmoid s.
Proof.
  intros [L | ->]; [| lra]; unfold sigmoid.
  pose proof (exp_pos (- t)); pose proof (exp_pos (- s)).
  apply Rinv_le_contravar; [lra |].
  assert (exp (- s) < exp (- t)) by (apply exp_increasing; lra); lra.
Qed.

Lemma sigmoid_of_minus t : sigmoid (- t) = 1 - sigmoid t.
Proof.
  unfold sigmoid; rewrite Ropp_involutive, exp_Ropp.
  pose proof (exp_pos t); field; lra.
Qed.

(* A label y is 0 or 1, and the odds' logarithm is within B: 2 sigmoid(B), below 2. *)
Theorem logistic_slope_is_bounded t B y : Rabs t <= B -> y = 0 \/ y = 1 ->
  Rabs (sigmoid t - y) <= sigmoid B.
Proof.
  intros L Y; pose proof (Rle_abs t) as T; pose proof (Rle_abs (- t)) as T'.
  rewrite Rabs_Ropp in T'.
  pose proof (sigmoid_grows t B); pose proof (sigmoid_grows (- B) t) as M.
  rewrite sigmoid_of_minus in M; pose proof (sigmoid_is_a_share t).
  assert (1 - sigmoid B <= sigmoid t) by (apply M; lra).
  assert (sigmoid t <= sigmoid B) by (apply H; lra).
  apply Rabs_le; destruct Y as [-> | ->]; lra.
Qed.

Theorem logistic_gradients_differ t B y x t' y' x' :
  Rabs t <= B -> Rabs t' <= B -> y = 0 \/ y = 1 -> y' = 0 \/ y' = 1 ->
  Rabs x <= 1 -> Rabs x' <= 1 ->
  Rabs ((sigmoid t - y) * x - (sigmoid t' - y') * x') <= 2 * sigmoid B.
Proof.
  intros T T' Y Y' X X'.
  pose proof (product_within _ _ _ _ (logistic_slope_is_bounded t B y T Y) X).
  pose proof (product_within _ _ _ _ (logistic_slope_is_bounded t' B y' T' Y') X').
  unfold Rminus at 1.
  apply Rle_trans with (Rabs ((sigmoid t - y) * x) + Rabs (- ((sigmoid t' - y') * x')));
    [apply Rabs_triang |].
  rewrite Rabs_Ropp; lra.
Qed.
