(* Balls of second moments, cut by triangle inequalities (mechanisms.geometry.cuts): every difference of
   two records is inside, and so is a record more or less with its count. A record has numbers from -1
   to 1. Of a square, 2 x^2 counts, or 2 x^2 - 1 where there is a count. *)

From Coq Require Import QArith Qabs Lqa.
Open Scope Q_scope.

Definition inside x := - (1) <= x /\ x <= 1.
Definition sign s := s = 1 \/ s = - (1).

Lemma sign_minus s : sign s -> sign (- s).
Proof. intros [-> | ->]; [right | left]; reflexivity. Qed.

Lemma abs_below x d : x <= d -> - x <= d -> Qabs x <= d.
Proof. intros; apply Qabs_case; intros; assumption. Qed.

Ltac signs := repeat match goal with H : sign _ |- _ => destruct H; subst end.

(* Three products of three numbers are in a tetrahedron: 1 - ab - ac + bc is the least of four. *)
Lemma tetrahedron a b c : inside a -> inside b -> inside c -> a * b + a * c - b * c <= 1.
Proof.
  unfold inside; intros [A A'] [B B'] [C C'].
  assert (0 <= (1 - b) * (1 - c)) by nra; assert (0 <= (1 + b) * (1 + c)) by nra.
  destruct (Qlt_le_dec (b + c) 0); nra.
Qed.

Lemma inside_minus x : inside x -> inside (- x).
Proof. unfold inside; intros [L U]; split; lra. Qed.

Lemma product_inside a b : inside a -> inside b -> inside (a * b).
Proof. unfold inside; intros [A A'] [B B']; split; nra. Qed.

Theorem products_of_one_record a b c s t r : inside a -> inside b -> inside c ->
  sign s -> sign t -> sign r -> s * t * r == - (1) ->
  - (3) <= s * (a * b) + t * (a * c) + r * (b * c) /\
  s * (a * b) + t * (a * c) + r * (b * c) <= 1.
Proof.
  intros A B C S T R P.
  pose proof (inside_minus a A) as A'; pose proof (inside_minus b B) as B'.
  pose proof (inside_minus c C) as C'.
  pose proof (tetrahedron a b c A B C); pose proof (tetrahedron (- a) b c A' B C).
  pose proof (tetrahedron b a c B A C); pose proof (tetrahedron c a b C A B).
  pose proof (product_inside a b A B); pose proof (product_inside a c A C).
  pose proof (product_inside b c B C).
  unfold inside in *; signs; split; lra.
Qed.

Lemma square_is_positive x : 0 <= x * x.
Proof. destruct (Qlt_le_dec x 0); nra. Qed.

Theorem sum_of_squares_and_a_product a b s : inside a -> inside b -> sign s ->
  0 <= 2 * (a * a) + 2 * (b * b) + s * (4 * (a * b)) /\
  2 * (a * a) + 2 * (b * b) + s * (4 * (a * b)) <= 8.
Proof.
  unfold inside; intros [A A'] [B B'] S; signs; split.
  - pose proof (square_is_positive (a + b)); lra.
  - nra.
  - pose proof (square_is_positive (a - b)); lra.
  - nra.
Qed.

Lemma edge x y : 0 <= x -> 0 <= x * (y * y).
Proof. intros P; apply Qmult_le_0_compat; [exact P | apply square_is_positive]. Qed.

Lemma edges a b : inside a -> inside b ->
  0 <= (1 - a) * (1 + a) /\
  0 <= (1 + a) * ((1 - b) * (1 - b)) /\ 0 <= (1 - a) * ((1 + b) * (1 + b)) /\
  0 <= (1 + a) * ((1 + b) * (1 + b)) /\ 0 <= (1 - a) * ((1 - b) * (1 - b)).
Proof.
  unfold inside; intros [A A'] [B B']; repeat split; try (apply edge; lra); nra.
Qed.

Theorem difference_of_squares_and_a_product a b s : inside a -> inside b -> sign s ->
  Qabs (2 * (a * a) - 2 * (b * b) + s * (4 * (a * b))) <= 4.
Proof.
  intros A B S; destruct (edges a b A B) as (P0 & P1 & P2 & P3 & P4).
  destruct (edges b a B A) as (R0 & R1 & R2 & R3 & R4).
  apply abs_below; signs; lra.
Qed.

(* Where the other square is not asked for. *)
Theorem square_and_a_product a b s : inside a -> inside b -> sign s ->
  - (2) <= 2 * (a * a) + s * (4 * (a * b)) /\ 2 * (a * a) + s * (4 * (a * b)) <= 6.
Proof.
  intros A B S; pose proof (square_is_positive (a + b)); pose proof (square_is_positive (a - b)).
  destruct (edges a b A B) as (P0 & _); destruct (edges b a B A) as (R0 & _).
  destruct (product_inside a b A B); signs; split; lra.
Qed.

(* Replace-one: differences of two records, one with a, b, c and one with a', b', c'. *)

Lemma abs_as_sign x : exists s, sign s /\ Qabs x == s * x.
Proof.
  destruct (Qlt_le_dec x 0) as [L | L].
  - exists (- (1)); split; [right; reflexivity |]; rewrite Qabs_neg; [ring | lra].
  - exists 1; split; [left; reflexivity |]; rewrite Qabs_pos; [ring | exact L].
Qed.

Theorem products_of_a_difference a b c a' b' c' :
  inside a -> inside b -> inside c -> inside a' -> inside b' -> inside c' ->
  Qabs (a * b - a' * b') + Qabs (a * c - a' * c') + Qabs (b * c - b' * c') <= 4.
Proof.
  intros A B C A' B' C'.
  destruct (abs_as_sign (a * b - a' * b')) as (s & S & ->).
  destruct (abs_as_sign (a * c - a' * c')) as (t & T & ->).
  destruct (abs_as_sign (b * c - b' * c')) as (r & R & ->).
  assert (E : s * t * r == 1 \/ s * t * r == - (1))
    by (signs; (left; reflexivity) || (right; reflexivity)).
  pose proof sign_minus as N.
  destruct E as [E | E].
  - assert (E' : (- s) * (- t) * (- r) == - (1)).
    { setoid_replace ((- s) * (- t) * (- r)) with (- (s * t * r)) by ring; rewrite E; reflexivity. }
    pose proof (products_of_one_record a b c (- s) (- t) (- r) A B C (N s S) (N t T) (N r R) E').
    pose proof (products_of_one_record a' b' c' (- s) (- t) (- r) A' B' C' (N s S) (N t T)
                  (N r R) E').
    lra.
  - pose proof (products_of_one_record a b c s t r A B C S T R E).
    pose proof (products_of_one_record a' b' c' s t r A' B' C' S T R E); lra.
Qed.

Theorem squares_of_a_difference a b a' b' :
  inside a -> inside b -> inside a' -> inside b' ->
  Qabs (2 * (a * a) - 2 * (a' * a')) + Qabs (2 * (b * b) - 2 * (b' * b'))
    + 4 * Qabs (a * b - a' * b') <= 8.
Proof.
  intros A B A' B'.
  destruct (abs_as_sign (2 * (a * a) - 2 * (a' * a'))) as (s & S & ->).
  destruct (abs_as_sign (2 * (b * b) - 2 * (b' * b'))) as (t & T & ->).
  destruct (abs_as_sign (a * b - a' * b')) as (r & R & ->).
  pose proof (sum_of_squares_and_a_product a b r A B R) as U.
  pose proof (sum_of_squares_and_a_product a' b' r A' B' R) as V.
  pose proof (sign_minus r R) as N.
  pose proof (sum_of_squares_and_a_product a b (- r) A B N).
  pose proof (sum_of_squares_and_a_product a' b' (- r) A' B' N).
  pose proof (difference_of_squares_and_a_product a b r A B R) as D.
  pose proof (difference_of_squares_and_a_product a' b' r A' B' R) as D'.
  pose proof (difference_of_squares_and_a_product a b (- r) A B N) as F.
  pose proof (difference_of_squares_and_a_product a' b' (- r) A' B' N) as F'.
  apply Qabs_Qle_condition in D; apply Qabs_Qle_condition in D'.
  apply Qabs_Qle_condition in F; apply Qabs_Qle_condition in F'.
  signs; lra.
Qed.

(* Without one of the squares: the same with 0 in its place. *)
Theorem one_square_of_a_difference a b a' b' :
  inside a -> inside b -> inside a' -> inside b' ->
  Qabs (2 * (a * a) - 2 * (a' * a')) + 4 * Qabs (a * b - a' * b') <= 8.
Proof.
  intros A B A' B'; pose proof (squares_of_a_difference a b a' b' A B A' B').
  pose proof (Qabs_nonneg (2 * (b * b) - 2 * (b' * b'))); lra.
Qed.

(* Add-remove: a record and its count, 1 or -1 times (1, products, 2 x^2 - 1). *)
Theorem products_with_a_count a b c s t r n : inside a -> inside b -> inside c ->
  sign s -> sign t -> sign r -> sign n -> s * t * r == - (1) ->
  Qabs (n + s * (n * (a * b)) + t * (n * (a * c)) + r * (n * (b * c))) <= 2.
Proof.
  intros A B C S T R N E; destruct (products_of_one_record a b c s t r A B C S T R E).
  apply abs_below; destruct N; subst; lra.
Qed.

Theorem squares_with_a_count a b s n : inside a -> inside b -> sign s -> sign n ->
  Qabs (2 * n - n * (2 * (a * a) - 1) - n * (2 * (b * b) - 1) + s * (4 * (n * (a * b)))) <= 4.
Proof.
  intros A B S N; pose proof (sign_minus s S) as M.
  destruct (sum_of_squares_and_a_product a b (- s) A B M).
  apply abs_below; destruct N; subst; lra.
Qed.

Theorem difference_of_squares_with_a_count a b s n :
  inside a -> inside b -> sign s -> sign n ->
  Qabs (n * (2 * (a * a) - 1) - n * (2 * (b * b) - 1) + s * (4 * (n * (a * b)))) <= 4.
Proof.
  intros A B S N; pose proof (difference_of_squares_and_a_product a b s A B S) as D.
  apply Qabs_Qle_condition in D; apply abs_below; destruct N; subst; lra.
Qed.

Theorem square_with_a_count a b s n : inside a -> inside b -> sign s -> sign n ->
  Qabs (n - n * (2 * (a * a) - 1) + s * (4 * (n * (a * b)))) <= 4.
Proof.
  intros A B S N; pose proof (sign_minus s S) as M.
  destruct (square_and_a_product a b (- s) A B M).
  apply abs_below; destruct N; subst; lra.
Qed.
