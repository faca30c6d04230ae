(* Moments of columns with codes a, |a| <= F. What is summed are F a, 2 a^2 and a b, and with a
   private count also F^2, with 2 a^2 - F^2 in the place of 2 a^2. The balls K_T and its kin with a
   count are asked by whole numbers whether a lattice point lies in r K; F^2 is Delta. *)

From Coq Require Import ZArith Bool List Lia Psatz.
From ReleaseDesk Require Import Knorm Balls.
Import ListNotations.
Open Scope Z_scope.

(* A main effect u and a square w, without a count. *)
Definition in_square (s u w : Z) :=
  (Z.abs u <=? 2 * s) && (Z.abs w <=? 2 * s)
  && ((Z.abs u <=? s)
      || (2 * ((Z.abs u - s) * (Z.abs u - s)) <=? (2 * s - Z.abs w) * s)).

(* Two main effects u and v and their product p. *)
Definition in_product (s u v p : Z) :=
  (Z.abs u <=? 2 * s) && (Z.abs v <=? 2 * s)
  && (Z.abs p <=? Z.min (2 * s) (4 * s - Z.abs u - Z.abs v)).

(* The same with a count n: two arcs of the parabola, and four sums. *)
Definition under_arc (s n u w : Z) :=
  let over := 2 * Z.abs u - s - n in (over <=? 0) || (over * over <=? (s - w) * (s - n)).
Definition in_counted_square (s n u w : Z) :=
  (Z.abs n <=? s) && (Z.abs u <=? s) && (Z.abs w <=? s)
  && under_arc s n u w && under_arc s (- n) u (- w).
Definition in_counted_product (s n u v p : Z) :=
  (Z.abs n <=? s) && (Z.abs u <=? s) && (Z.abs v <=? s) && (Z.abs p <=? s)
  && (Z.abs (n + u + v - p) <=? 2 * s) && (Z.abs (n + u - v + p) <=? 2 * s)
  && (Z.abs (n - u + v + p) <=? 2 * s) && (Z.abs (u + v + p - n) <=? 2 * s).

Ltac facts :=
  unfold in_square, in_product, in_counted_square, in_counted_product, under_arc;
  rewrite ?andb_true_iff, ?orb_true_iff, ?Z.leb_le, ?Z.min_glb_iff.

Lemma product_bounds F x y : Z.abs x <= F -> Z.abs y <= F ->
  0 <= (F + x) * (F + y) <= 4 * (F * F) /\ - (F * F) <= x * y <= F * F /\ 0 <= F * F.
Proof.
  intros X Y.
  assert (0 <= (F + x) * (F + y)) by (apply Z.mul_nonneg_nonneg; lia).
  assert ((F + x) * (F + y) <= 2 * F * (2 * F)) by (apply Z.mul_le_mono_nonneg; lia).
  assert (Z.abs (x * y) <= F * F) by (rewrite Z.abs_mul; apply Z.mul_le_mono_nonneg; lia).
  lia.
Qed.

(* Neighbours by one replaced record: their codes are a and a', and b and b' of another column. *)
Section Replaced.
  Variables F a b a' b' : Z.
  Hypothesis codes : Z.abs a <= F /\ Z.abs b <= F /\ Z.abs a' <= F /\ Z.abs b' <= F.

  Theorem square_moves_within_K :
    in_square (F * F) (F * a - F * a') (2 * (a * a) - 2 * (a' * a')) = true.
  Proof.
    facts.
    assert (M : Z.abs (F * a - F * a') = F * Z.abs (a - a')).
    { replace (F * a - F * a') with (F * (a - a')) by ring; rewrite Z.abs_mul; lia. }
    assert (W : Z.abs (2 * (a * a) - 2 * (a' * a')) = 2 * (Z.abs (a - a') * Z.abs (a + a'))).
    { replace (2 * (a * a) - 2 * (a' * a')) with (2 * ((a - a') * (a + a'))) by ring.
      rewrite Z.abs_mul, Z.abs_mul; reflexivity. }
    rewrite M, W.
    assert (S : Z.abs (a - a') + Z.abs (a + a') <= 2 * F) by lia.
    pose proof (Z.abs_nonneg (a - a')); pose proof (Z.abs_nonneg (a + a')).
    set (d := Z.abs (a - a')) in *; set (e := Z.abs (a + a')) in *.
    assert (N : 0 <= F) by lia.
    assert (D : d * e <= d * (2 * F - d)) by (apply Z.mul_le_mono_nonneg_l; lia).
    assert (0 <= (F - d) * (F - d)) by apply Z.square_nonneg.
    assert (0 <= F * F) by (apply Z.mul_nonneg_nonneg; lia).
    assert (F * d <= F * (2 * F)) by (apply Z.mul_le_mono_nonneg_l; lia).
    assert (0 <= d * e) by (apply Z.mul_nonneg_nonneg; lia).
    repeat split; try lia.
    right.
    assert (X : F * F * (2 * (d * e)) <= F * F * (2 * (d * (2 * F - d))))
      by (apply Z.mul_le_mono_nonneg_l; lia).
    lia.
  Qed.

  Theorem product_moves_within_K :
    in_product (F * F) (F * a - F * a') (F * b - F * b') (a * b - a' * b') = true.
  Proof.
    destruct codes as (A & B & A' & B'); facts.
    assert (N : Z.abs F <= F) by lia.
    pose proof (product_bounds F a b A B); pose proof (product_bounds F a' b' A' B').
    pose proof (product_bounds F a (- b) A ltac:(lia)).
    pose proof (product_bounds F (- a) b ltac:(lia) B).
    pose proof (product_bounds F (- a) (- b) ltac:(lia) ltac:(lia)).
    pose proof (product_bounds F a' (- b') A' ltac:(lia)).
    pose proof (product_bounds F (- a') b' ltac:(lia) B').
    pose proof (product_bounds F (- a') (- b') ltac:(lia) ltac:(lia)).
    pose proof (product_bounds F F a N A); pose proof (product_bounds F F b N B).
    pose proof (product_bounds F F a' N A'); pose proof (product_bounds F F b' N B').
    clear codes A B A' B' N.
    repeat split; lia.
  Qed.
End Replaced.

(* One record more or less, with a count. *)
Section Added.
  Variables F a b : Z.
  Hypothesis codes : Z.abs a <= F /\ Z.abs b <= F.

  Theorem counted_square_moves_within_K :
    in_counted_square (F * F) (F * F) (F * a) (2 * (a * a) - F * F) = true
    /\ in_counted_square (F * F) (- (F * F)) (- (F * a)) (- (2 * (a * a) - F * F)) = true.
  Proof.
    destruct codes as [A _].
    assert (M : Z.abs (F * a) = F * Z.abs a) by (rewrite Z.abs_mul; lia).
    assert (Q : a * a = Z.abs a * Z.abs a) by (rewrite <- Z.abs_square; reflexivity).
    facts; rewrite ?Z.abs_opp, ?Z.opp_involutive, ?M, Q.
    pose proof (Z.abs_nonneg a); set (x := Z.abs a) in *.
    assert (0 <= x * x) by apply Z.square_nonneg.
    assert (x * x <= F * F) by (apply Z.mul_le_mono_nonneg; lia).
    assert (0 <= F * x) by (apply Z.mul_nonneg_nonneg; lia).
    assert (F * x <= F * F) by (apply Z.mul_le_mono_nonneg_l; lia).
    repeat split; try lia; try (left; lia); right; lia.
  Qed.

  Theorem counted_product_moves_within_K :
    in_counted_product (F * F) (F * F) (F * a) (F * b) (a * b) = true
    /\ in_counted_product (F * F) (- (F * F)) (- (F * a)) (- (F * b)) (- (a * b)) = true.
  Proof.
    destruct codes as [A B]; facts.
    assert (N : Z.abs F <= F) by lia.
    pose proof (product_bounds F a b A B).
    pose proof (product_bounds F a (- b) A ltac:(lia)).
    pose proof (product_bounds F (- a) b ltac:(lia) B).
    pose proof (product_bounds F (- a) (- b) ltac:(lia) ltac:(lia)).
    pose proof (product_bounds F F a N A); pose proof (product_bounds F F b N B).
    clear codes A B N.
    repeat split; lia.
  Qed.
End Added.

(* They are balls. The step that takes thought is the parabola: where b^2 <= x y and c^2 <= z t,
   (b + c)^2 <= (x + z) (y + t), by Cauchy and Schwarz. *)
Lemma cauchy_schwarz b c x y z t : 0 <= b -> 0 <= c -> 0 <= x -> 0 <= y -> 0 <= z -> 0 <= t ->
  b * b <= x * y -> c * c <= z * t -> (b + c) * (b + c) <= (x + z) * (y + t).
Proof.
  intros B C X Y Z' T H H'.
  assert (K : (b * c) * (b * c) <= (x * t) * (z * y)).
  { replace ((b * c) * (b * c)) with ((b * b) * (c * c)) by ring.
    replace ((x * t) * (z * y)) with ((x * y) * (z * t)) by ring.
    apply Z.mul_le_mono_nonneg;
      [apply Z.square_nonneg | exact H | apply Z.square_nonneg | exact H']. }
  assert (0 <= x * t) by (apply Z.mul_nonneg_nonneg; assumption).
  assert (0 <= z * y) by (apply Z.mul_nonneg_nonneg; assumption).
  assert (0 <= b * c) by (apply Z.mul_nonneg_nonneg; assumption).
  assert (M : 2 * (b * c) <= x * t + z * y).
  { set (p := x * t) in *; set (q := z * y) in *; set (m := b * c) in *.
    destruct (Z_le_gt_dec (2 * m) (p + q)) as [L | G]; [exact L | exfalso].
    assert ((p + q + 1) * (p + q + 1) <= (2 * m) * (2 * m)) by (apply Z.mul_le_mono_nonneg; lia).
    pose proof (Z.square_nonneg (p - q)); lia. }
  lia.
Qed.

(* The same where what is squared may be negative, and then counts for nothing. *)
Lemma arcs_add o o' o'' x y z t : 0 <= x -> 0 <= y -> 0 <= z -> 0 <= t -> o'' <= o + o' ->
  (o <= 0 \/ o * o <= x * y) -> (o' <= 0 \/ o' * o' <= z * t) ->
  o'' <= 0 \/ o'' * o'' <= (x + z) * (y + t).
Proof.
  intros X Y Z' T O H H'; destruct (Z_le_gt_dec o'' 0) as [N | P]; [left; exact N | right].
  assert (A : Z.max 0 o * Z.max 0 o <= x * y).
  { destruct (Z_le_gt_dec o 0).
    - rewrite Z.max_l by lia; simpl; apply Z.mul_nonneg_nonneg; assumption.
    - rewrite Z.max_r by lia; destruct H; lia. }
  assert (A' : Z.max 0 o' * Z.max 0 o' <= z * t).
  { destruct (Z_le_gt_dec o' 0).
    - rewrite Z.max_l by lia; simpl; apply Z.mul_nonneg_nonneg; assumption.
    - rewrite Z.max_r by lia; destruct H'; lia. }
  eapply Z.le_trans.
  - apply (Z.mul_le_mono_nonneg o'' (Z.max 0 o + Z.max 0 o') o'' (Z.max 0 o + Z.max 0 o')); lia.
  - apply cauchy_schwarz; lia || assumption.
Qed.

Lemma arc_adds s n u w s' n' u' w' : Z.abs n <= s -> Z.abs w <= s -> Z.abs n' <= s' ->
  Z.abs w' <= s' -> under_arc s n u w = true -> under_arc s' n' u' w' = true ->
  under_arc (s + s') (n + n') (u + u') (w + w') = true.
Proof.
  intros N W N' W'; facts; intros A A'.
  replace (s + s' - (w + w')) with (s - w + (s' - w')) by ring.
  replace (s + s' - (n + n')) with (s - n + (s' - n')) by ring.
  apply (arcs_add (2 * Z.abs u - s - n) (2 * Z.abs u' - s' - n')); lia || assumption.
Qed.

Theorem counted_squares_add s n u w s' n' u' w' :
  in_counted_square s n u w = true -> in_counted_square s' n' u' w' = true ->
  in_counted_square (s + s') (n + n') (u + u') (w + w') = true.
Proof.
  unfold in_counted_square; rewrite !andb_true_iff, !Z.leb_le.
  intros ((((N & U) & W) & A) & B) ((((N' & U') & W') & A') & B').
  repeat split; try lia.
  - apply arc_adds; assumption.
  - replace (- (n + n')) with (- n + - n') by ring; replace (- (w + w')) with (- w + - w') by ring.
    apply arc_adds; rewrite ?Z.abs_opp; assumption.
Qed.

Theorem counted_products_add s n u v p s' n' u' v' p' :
  in_counted_product s n u v p = true -> in_counted_product s' n' u' v' p' = true ->
  in_counted_product (s + s') (n + n') (u + u') (v + v') (p + p') = true.
Proof.
  facts; rewrite !Z.abs_le; intros H H'; decompose [and] H; decompose [and] H'; clear H H'.
  repeat split; lia.
Qed.

Theorem products_add s u v p s' u' v' p' :
  in_product s u v p = true -> in_product s' u' v' p' = true ->
  in_product (s + s') (u + u') (v + v') (p + p') = true.
Proof.
  facts; intros H H'; decompose [and] H; decompose [and] H'; clear H H'.
  pose proof (Z.abs_triangle u u'); pose proof (Z.abs_triangle v v').
  pose proof (Z.abs_triangle p p').
  repeat match goal with
  | _ : context [Z.abs ?x] |- _ => generalize dependent (Z.abs x); intros
  end.
  repeat split; lia.
Qed.

Theorem squares_add s u w s' u' w' :
  in_square s u w = true -> in_square s' u' w' = true ->
  in_square (s + s') (u + u') (w + w') = true.
Proof.
  facts; intros ((U & W) & A) ((U' & W') & A'); repeat split; try lia.
  assert (X : forall s u w,
    Z.abs u <= s \/ 2 * ((Z.abs u - s) * (Z.abs u - s)) <= (2 * s - w) * s <->
    2 * (Z.abs u - s) <= 0 \/ 2 * (Z.abs u - s) * (2 * (Z.abs u - s)) <= (2 * s - w) * (2 * s)).
  { intros; split; intros [? | ?]; [left | right | left | right]; lia. }
  apply X in A, A'; apply X.
  destruct (arcs_add (2 * (Z.abs u - s)) (2 * (Z.abs u' - s')) (2 * (Z.abs (u + u') - (s + s')))
    (2 * s - Z.abs w) (2 * s) (2 * s' - Z.abs w') (2 * s')) as [N | R]; try lia; try assumption.
  right; eapply Z.le_trans; [exact R |].
  replace (2 * s + 2 * s') with (2 * (s + s')) by ring.
  apply Z.mul_le_mono_nonneg_r; lia.
Qed.

(* So the whole balls are balls: K_T is what the tests of all squares and products let pass. A
   coordinate is named by its place. *)
Inductive coordinate :=
| Square (u w : nat)
| Product (u v p : nat)
| CountedSquare (n u w : nat)
| CountedProduct (n u v p : nat).

Definition passes c r (x : vector) :=
  let s := Z.of_nat r in
  match c with
  | Square u w => in_square s (x u) (x w)
  | Product u v p => in_product s (x u) (x v) (x p)
  | CountedSquare n u w => in_counted_square s (x n) (x u) (x w)
  | CountedProduct n u v p => in_counted_product s (x n) (x u) (x v) (x p)
  end = true.

Definition moment_ball coordinates := every (map passes coordinates).

Lemma zero_passes c r : passes c r (fun _ => 0).
Proof. destruct c; unfold passes; facts; repeat split; lia. Qed.

Lemma passing_adds c r s x y : passes c r x -> passes c s y -> passes c (r + s) (plus x y).
Proof.
  destruct c; unfold passes, plus; rewrite Nat2Z.inj_add; intros.
  - apply squares_add; assumption.
  - apply products_add; assumption.
  - apply counted_squares_add; assumption.
  - apply counted_products_add; assumption.
Qed.

Lemma passing_is_same c r x y : (forall i, x i = y i) -> passes c r x -> passes c r y.
Proof. intros E; destruct c; unfold passes; rewrite !E; trivial. Qed.

Theorem moment_balls_are_balls coordinates : ball (moment_ball coordinates).
Proof.
  apply all_of_balls_is_a_ball, Forall_forall; intros K I; apply in_map_iff in I.
  destruct I as (c & <- & _); split.
  - intros r s x L P; replace s with (r + (s - r))%nat by lia.
    apply (passing_is_same c _ (plus x (fun _ => 0))); [intros; unfold plus; lia |].
    apply passing_adds; [exact P | apply zero_passes].
  - apply passing_adds.
  - intros r x y E; apply passing_is_same, E.
Qed.

(* Computed for the comparison with the program: the size, the coordinates, and whether the ball of
   that size holds them. *)
Definition yes_or_no (b : bool) := if b then 1 else 0.
Definition from_to n := map (fun k => Z.of_nat k - Z.of_nat n) (seq 0 (2 * n + 1)).
Definition squares_table :=
  flat_map (fun s => flat_map (fun u => map (fun w => [s; u; w; yes_or_no (in_square s u w)])
    (from_to 5)) (from_to 4)) [1; 2].
Definition products_table :=
  flat_map (fun s => flat_map (fun u => flat_map (fun v => map (fun p =>
    [s; u; v; p; yes_or_no (in_product s u v p)]) [-4; -2; -1; 0; 1; 3; 4])
    (from_to 3)) [-4; -1; 0; 2; 3]) [1; 2].
Definition counted_squares_table :=
  flat_map (fun s => flat_map (fun n => flat_map (fun u => map (fun w =>
    [s; n; u; w; yes_or_no (in_counted_square s n u w)])
    (from_to 4)) [-3; -1; 0; 2; 3]) [-4; -2; 0; 1; 3]) [2; 3].
Definition counted_products_table :=
  flat_map (fun n => flat_map (fun u => flat_map (fun v => map (fun p =>
    [2; n; u; v; p; yes_or_no (in_counted_product 2 n u v p)])
    (from_to 2)) [-2; -1; 0; 2]) (from_to 2)) [-2; 0; 1; 3].
