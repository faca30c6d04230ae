(* Noise on whole numbers, shaped by a norm ball K. The sampler never computes a norm: it asks
   whether a lattice point lies in r K, for whole r. The norm rounded up is the least such r, and
   the law is P(v) = c exp(-rate * that r). *)

From Coq Require Import Reals ZArith List Lia Lra Psatz.
Import ListNotations.

(* A vector is its coordinates; those from the dimension on are of no matter. *)
Definition vector := nat -> Z.
Definition plus (v u : vector) : vector := fun i => (v i + u i)%Z.
Definition minus (v u : vector) : vector := fun i => (v i - u i)%Z.

(* [K r v] says that v lies in r K. All that is used of a ball: *)
Record ball (K : nat -> vector -> Prop) := {
  grows : forall r s v, r <= s -> K r v -> K s v;
  adds : forall r s v u, K r v -> K s u -> K (r + s) (plus v u);
  same : forall r v u, (forall i, v i = u i) -> K r v -> K r u
}.

(* The norm of v, rounded up, is r. *)
Definition ceil_norm (K : nat -> vector -> Prop) v r := K r v /\ forall s, K s v -> r <= s.

(* T and T' are what is summed for neighbours: their difference lies in Delta K, both ways. *)
Definition within (K : nat -> vector -> Prop) delta T T' :=
  K delta (minus T T') /\ K delta (minus T' T).

Lemma ceil_norm_grows K delta T T' y r r' : ball K ->
  K delta (minus T T') -> ceil_norm K (minus y T) r -> ceil_norm K (minus y T') r' ->
  r' <= r + delta.
Proof.
  intros B D [R _] [_ L']; apply L'.
  apply (same K B _ (plus (minus y T) (minus T T'))).
  - intros i; unfold plus, minus; lia.
  - apply (adds K B); assumption.
Qed.

(* Rounded up, the norm of the noise that explains an answer y moves by at most Delta. *)
Theorem ceiling_moves_by_delta K delta T T' y r r' : ball K -> within K delta T T' ->
  ceil_norm K (minus y T) r -> ceil_norm K (minus y T') r' ->
  r <= r' + delta /\ r' <= r + delta.
Proof.
  intros B [D D'] R R'; split.
  - exact (ceil_norm_grows K delta T' T y r' r B D' R' R).
  - exact (ceil_norm_grows K delta T T' y r r' B D R R').
Qed.

Open Scope R_scope.

(* The probability of the answer T + v = y; c makes the law of v sum to 1, and is free of T. *)
Definition probability c rate r := c * exp (- (rate * INR r)).

Theorem knorm_is_private K delta T T' y r r' c epsilon : ball K -> within K delta T T' ->
  ceil_norm K (minus y T) r -> ceil_norm K (minus y T') r' ->
  0 < c -> 0 < epsilon -> (0 < delta)%nat ->
  probability c (epsilon / INR delta) r <= exp epsilon * probability c (epsilon / INR delta) r'.
Proof.
  intros B W R R' C E D; unfold probability.
  destruct (ceiling_moves_by_delta K delta T T' y r r' B W R R') as [_ M].
  replace (exp epsilon * (c * exp (- (epsilon / INR delta * INR r'))))
    with (c * exp (epsilon + - (epsilon / INR delta * INR r'))) by (rewrite exp_plus; ring).
  apply Rmult_le_compat_l; [lra |].
  assert (P : 0 < INR delta) by (apply lt_0_INR; exact D).
  apply le_INR in M; rewrite plus_INR in M.
  assert (Q : 0 < epsilon / INR delta) by (apply Rdiv_lt_0_compat; assumption).
  assert (epsilon = epsilon / INR delta * INR delta) by (field; lra).
  set (q := epsilon / INR delta) in *.
  assert (L : - (q * INR r) <= epsilon + - (q * INR r')) by nra.
  destruct L as [L | ->]; [left; apply exp_increasing; exact L | right; reflexivity].
Qed.

(* Rings. Where a ball is cut into rings of [steps] lattice steps each, the lattice point's ring is
   what is rounded up. Delta is a whole number of rings, and the rate belongs to one ring. *)
Theorem rings_lose_epsilon unit_ refinement rings steps epsilon :
  (unit_ * refinement = rings * steps)%nat -> (0 < unit_ * refinement)%nat ->
  epsilon / (INR unit_ * INR refinement) * INR steps * INR rings = epsilon.
Proof.
  intros E P; apply (f_equal INR) in E; apply lt_0_INR in P.
  rewrite !mult_INR in *; rewrite Rmult_assoc, (Rmult_comm (INR steps)), <- E; field; split; nra.
Qed.

Theorem rings_of_a_ball K steps : ball K -> ball (fun r => K (steps * r)%nat).
Proof.
  intros B; split; intros.
  - eapply (grows K B); [| eassumption]; apply Nat.mul_le_mono_l; assumption.
  - rewrite Nat.mul_add_distr_l; apply (adds K B); assumption.
  - eapply (same K B); eassumption.
Qed.

(* The route: a radius r is drawn with odds q^r, and kept with v where v lies in r K. Summed over
   all radii from the least one k on, that is the wanted law, whose q is exp(-rate). *)
Theorem pairs_leave_the_target rate k : 0 < rate ->
  infinite_sum (fun i => exp (- (rate * INR (k + i))))
    (exp (- (rate * INR k)) * / (1 - exp (- rate))).
Proof.
  intros P; set (q := exp (- rate)).
  assert (Q : 0 < q < 1).
  { split; [apply exp_pos |]; rewrite <- exp_0; apply exp_increasing; lra. }
  assert (E : forall i, exp (- (rate * INR i)) = q ^ i).
  { intros i; unfold q; rewrite <- Rpower_pow by apply exp_pos; unfold Rpower.
    rewrite ln_exp; f_equal; ring. }
  pose proof (GP_infinite q) as G; unfold Pser in G.
  assert (A : Rabs q < 1) by (rewrite Rabs_pos_eq; lra); specialize (G A).
  intros eps H.
  assert (X : 0 < q ^ k) by (apply pow_lt; lra).
  destruct (G (eps / q ^ k)) as [N F]; [apply Rdiv_lt_0_compat; assumption |].
  exists N; intros n L; specialize (F n L).
  rewrite E.
  rewrite (sum_eq _ (fun i => 1 * q ^ i * q ^ k)).
  2: { intros i _; rewrite E, pow_add; ring. }
  rewrite <- scal_sum; unfold R_dist in *.
  rewrite <- Rmult_minus_distr_l, Rabs_mult, (Rabs_pos_eq (q ^ k)) by lra.
  apply (Rmult_lt_compat_l (q ^ k)) in F; [| exact X].
  replace (q ^ k * (eps / q ^ k)) with eps in F by (field; lra); exact F.
Qed.
