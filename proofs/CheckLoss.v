(* How far one record moves the gradient of the check loss: for quantiles, whose records are the
   values y of one column, and for quantile regression, whose records are pairs of features and y.

   A record at or below the point t contributes 1 - tau, every other one -tau. Where t is a
   record's own value the loss has a kink; the score takes the smallest subgradient there. *)

From Coq Require Import ZArith QArith Qabs Qminmax List Lqa Lia.
Import ListNotations.
Open Scope Q_scope.

(* Neighbours: one record is replaced, or the second data set has one more. *)
Inductive replaced {A} : list A -> list A -> Prop :=
  replaced_at l y y' r : replaced (l ++ y :: r) (l ++ y' :: r).
Inductive added {A} : list A -> list A -> Prop :=
  added_at l y r : added (l ++ r) (l ++ y :: r).

Definition sum {A} (f : A -> Q) (D : list A) := fold_right (fun y s => f y + s) 0 D.

Definition one_if (b : bool) : Q := if b then 1 else 0.

(* M, the largest weight of a record. *)
Definition largest_weight (tau : Q) := Qmax tau (1 - tau).

(* Delta of a quantile, and of each coordinate of a quantile regression with |x| <= 1. *)
Definition quantile_delta (replace : bool) tau := if replace then 1 else largest_weight tau.
Definition regression_delta (replace : bool) tau :=
  if replace then 2 * largest_weight tau else largest_weight tau.

Definition gradient tau t D := sum (fun y => one_if (y <=? t)%Z - tau) D.

(* What the quantile's law is made of: the distance of tau n to [#{y < t}, #{y <= t}]. *)
Definition rows (D : list Z) := sum (fun _ => 1) D.
Definition less t D := sum (fun y => one_if (y <? t)%Z) D.
Definition up_to t D := sum (fun y => one_if (y <=? t)%Z) D.
Definition score tau t D :=
  Qmax 0 (Qmax (less t D - tau * rows D) (tau * rows D - up_to t D)).

Lemma sum_app {A} (f : A -> Q) l r : sum f (l ++ r) == sum f l + sum f r.
Proof. induction l; simpl; [| rewrite IHl]; ring. Qed.

Lemma sum_insert {A} (f : A -> Q) l y r : sum f (l ++ y :: r) == sum f (l ++ r) + f y.
Proof. rewrite !sum_app; simpl; ring. Qed.

Ltac of_abs := apply Qabs_Qle_condition.
Ltac split_max :=
  repeat match goal with
  | |- context [Qmax ?a ?b] => destruct (Q.max_spec a b) as [[? ->] | [? ->]]
  | H : context [Qmax ?a ?b] |- _ =>
      destruct (Q.max_spec a b) as [[? E] | [? E]]; rewrite E in H; clear E
  end.

Lemma weights tau : tau <= largest_weight tau /\ 1 - tau <= largest_weight tau.
Proof. unfold largest_weight; split; [apply Q.le_max_l | apply Q.le_max_r]. Qed.

Section Quantile.
  Variables (tau : Q) (t : Z).
  Hypothesis level : 0 <= tau <= 1.

  Theorem quantile_gradient_replaced D D' :
    replaced D D' -> Qabs (gradient tau t D - gradient tau t D') <= quantile_delta true tau.
  Proof.
    intros [l y y' r]; unfold gradient, quantile_delta; rewrite !sum_insert; of_abs.
    destruct (y <=? t)%Z, (y' <=? t)%Z; simpl; lra.
  Qed.

  Theorem quantile_gradient_added D D' :
    added D D' -> Qabs (gradient tau t D - gradient tau t D') <= quantile_delta false tau.
  Proof.
    intros [l y r]; unfold gradient, quantile_delta; rewrite !sum_insert; of_abs.
    pose proof (weights tau); destruct (y <=? t)%Z; simpl; lra.
  Qed.

  Lemma counted y : 
    one_if (y <? t)%Z <= one_if (y <=? t)%Z /\ 0 <= one_if (y <? t)%Z /\ one_if (y <=? t)%Z <= 1.
  Proof.
    destruct (Z.ltb_spec y t), (Z.leb_spec y t); simpl; try lra; exfalso; lia.
  Qed.

  Theorem quantile_score_replaced D D' :
    replaced D D' -> Qabs (score tau t D - score tau t D') <= quantile_delta true tau.
  Proof.
    intros [l y y' r]; unfold score, quantile_delta, rows, less, up_to; rewrite !sum_insert; of_abs.
    pose proof (counted y); pose proof (counted y').
    split_max; split; lra.
  Qed.

  Theorem quantile_score_added D D' :
    added D D' -> Qabs (score tau t D - score tau t D') <= quantile_delta false tau.
  Proof.
    intros [l y r]; unfold score, quantile_delta, rows, less, up_to; rewrite !sum_insert; of_abs.
    pose proof (counted y); pose proof (weights tau).
    split_max; split; lra.
  Qed.
End Quantile.

(* No smaller number would do. *)
Lemma abs_is a b : a == b -> 0 <= b -> Qabs a == b.
Proof. intros -> H; apply Qabs_pos; exact H. Qed.

Lemma abs_is_minus a b : a == - b -> 0 <= b -> Qabs a == b.
Proof. intros -> H; rewrite Qabs_opp; apply Qabs_pos; exact H. Qed.

Ltac compute_gradient :=
  unfold gradient, sum, fold_right;
  change (one_if (0 <=? 0)%Z) with 1; change (one_if (1 <=? 0)%Z) with 0; lra.

Lemma one_apart tau : Qabs (gradient tau 0 [0%Z] - gradient tau 0 [1%Z]) == 1.
Proof. apply abs_is; [compute_gradient | lra]. Qed.

Theorem quantile_delta_is_attained tau : 0 <= tau <= 1 ->
  (exists D D', replaced D D'
     /\ Qabs (gradient tau 0 D - gradient tau 0 D') == quantile_delta true tau)
  /\ (exists D D', added D D'
     /\ Qabs (gradient tau 0 D - gradient tau 0 D') == quantile_delta false tau).
Proof.
  intros level; split.
  - exists [0%Z], [1%Z]; split; [apply (replaced_at [] 0%Z 1%Z []) | apply one_apart].
  - unfold quantile_delta, largest_weight; destruct (Q.max_spec tau (1 - tau)) as [[? E] | [? E]].
    + exists [], [0%Z]; split; [apply (added_at [] 0%Z []) |].
      rewrite E; apply abs_is_minus; [compute_gradient | lra].
    + exists [], [1%Z]; split; [apply (added_at [] 1%Z []) |].
      rewrite E; apply abs_is; [compute_gradient | lra].
Qed.

(* The paper's 2 (1 - tau) is too small at every level above one half. *)
Theorem printed_delta_is_too_small tau : 1 # 2 < tau ->
  exists D D', replaced D D' /\ 2 * (1 - tau) < Qabs (gradient tau 0 D - gradient tau 0 D').
Proof.
  intros; exists [0%Z], [1%Z]; split; [apply (replaced_at [] 0%Z 1%Z []) |].
  rewrite one_apart; lra.
Qed.

(* Quantile regression. A record is its weight a in [-tau, 1 - tau], whatever decides it and
   however a kink is settled, and one feature x in [-1, 1]. *)
Record record := Record { weight : Q; feature : Q }.
Definition good tau z :=
  - tau <= weight z <= 1 - tau /\ -(1) <= feature z <= 1.
Definition coordinate D := sum (fun z => weight z * feature z) D.

Lemma contribution tau z : 0 <= tau <= 1 -> good tau z ->
  - largest_weight tau <= weight z * feature z <= largest_weight tau.
Proof.
  intros level [[A A'] [X X']]; pose proof (weights tau) as [W W']; destruct z as [a x]; simpl in *.
  assert (- largest_weight tau <= a) by lra; assert (a <= largest_weight tau) by lra.
  split; nra.
Qed.

Theorem regression_coordinate_replaced tau D D' : 0 <= tau <= 1 ->
  Forall (good tau) D -> Forall (good tau) D' -> replaced D D' ->
  Qabs (coordinate D - coordinate D') <= regression_delta true tau.
Proof.
  intros level G G' N; revert G G'; destruct N as [l z z' r]; intros G G'.
  unfold coordinate, regression_delta; rewrite !sum_insert; of_abs.
  apply Forall_elt in G, G'; apply (contribution tau z level) in G.
  apply (contribution tau z' level) in G'; split; lra.
Qed.

Theorem regression_coordinate_added tau D D' : 0 <= tau <= 1 ->
  Forall (good tau) D' -> added D D' ->
  Qabs (coordinate D - coordinate D') <= regression_delta false tau.
Proof.
  intros level G N; revert G; destruct N as [l z r]; intros G.
  unfold coordinate, regression_delta; rewrite !sum_insert; of_abs.
  apply Forall_elt in G; apply (contribution tau z level) in G; split; lra.
Qed.

(* With an intercept the first feature is 1, and what one replaced record moves lies in a smaller
   set. [hull_norm] is the norm of that set, for the intercept and one more coordinate. *)
Definition hull_norm M (first other : Q) :=
  Qmax (Qabs first) ((Qabs other + (2 * M - 1) * Qabs first) / (2 * M)).

Lemma abs_cases x : (0 <= x /\ Qabs x == x) \/ (x <= 0 /\ Qabs x == - x).
Proof.
  destruct (Qlt_le_dec x 0); [right | left]; split; try lra;
    [apply Qabs_neg | apply Qabs_pos]; lra.
Qed.

(* By convexity in a and a' it is enough to look at their sizes. *)
Lemma sizes_bound b a a' :
  1 # 2 <= b <= 1 -> - b <= a <= 1 - b -> - b <= a' <= 1 - b ->
  Qabs a + Qabs a' + (2 * b - 1) * Qabs (a - a') <= 2 * b.
Proof.
  intros B A A'.
  assert (P : forall x y, 0 <= x -> 0 <= y -> 0 <= x * y) by (intros; apply Qmult_le_0_compat; lra).
  pose proof (P b (1 - b - a)); pose proof (P b (1 - b - a')).
  pose proof (P (1 - b) (1 - b - a)); pose proof (P (1 - b) (1 - b - a')).
  pose proof (P b (a + b)); pose proof (P b (a' + b)).
  pose proof (P (1 - b) (a + b)); pose proof (P (1 - b) (a' + b)).
  destruct (abs_cases a) as [[? ->] | [? ->]]; destruct (abs_cases a') as [[? ->] | [? ->]];
    destruct (abs_cases (a - a')) as [[? ->] | [? ->]]; lra.
Qed.

Lemma times_feature a x : -(1) <= x <= 1 -> Qabs (a * x) <= Qabs a.
Proof.
  intros X; rewrite Qabs_Qmult; pose proof (Qabs_nonneg a).
  assert (Qabs x <= 1) by (of_abs; lra); nra.
Qed.

Lemma hull_bound tau a a' x x' : 0 <= tau <= 1 ->
  - tau <= a <= 1 - tau -> - tau <= a' <= 1 - tau -> -(1) <= x <= 1 -> -(1) <= x' <= 1 ->
  let M := largest_weight tau in
  Qabs (a * x - a' * x') + (2 * M - 1) * Qabs (a - a') <= 2 * M.
Proof.
  intros level A A' X X' M.
  pose proof (times_feature a x X); pose proof (times_feature a' x' X').
  assert (Qabs (a * x - a' * x') <= Qabs a + Qabs a').
  { pose proof (Qabs_triangle (a * x) (- (a' * x'))); rewrite Qabs_opp in *.
    unfold Qminus in *; lra. }
  assert (Qabs a + Qabs a' + (2 * M - 1) * Qabs (a - a') <= 2 * M); [| lra].
  subst M; unfold largest_weight; destruct (Q.max_spec tau (1 - tau)) as [[? E] | [? E]].
  - assert (same : Qabs (- a - - a') == Qabs (a - a')).
    { rewrite <- (Qabs_opp (a - a')); apply Qabs_wd; ring. }
    assert (S : Qabs (- a) + Qabs (- a') + (2 * (1 - tau) - 1) * Qabs (- a - - a') <= 2 * (1 - tau))
      by (apply sizes_bound; lra).
    rewrite !Qabs_opp, same in S; rewrite E; exact S.
  - rewrite E; apply sizes_bound; lra.
Qed.

Theorem intercept_hull_holds_every_change tau a a' x x' : 0 <= tau <= 1 ->
  - tau <= a <= 1 - tau -> - tau <= a' <= 1 - tau -> -(1) <= x <= 1 -> -(1) <= x' <= 1 ->
  hull_norm (largest_weight tau) (a - a') (a * x - a' * x') <= 1.
Proof.
  intros level A A' X X'; pose proof (hull_bound tau a a' x x' level A A' X X') as H.
  pose proof (weights tau); cbv zeta in H; unfold hull_norm; apply Q.max_lub.
  - of_abs; lra.
  - apply Qle_shift_div_r; lra.
Qed.

(* Computed for the comparison with the program: tau or M in twelfths, and whether a record is
   replaced, or the data in base 4 and t, or two coordinates in halves; then the exact results in
   lowest terms. *)
Definition fraction (q : Q) := let r := Qred q in [Qnum r; Zpos (Qden r)].
Definition twelfths := map (fun k => Z.of_nat k) (seq 1 11).
Definition deltas_table :=
  flat_map (fun k => map (fun replace : bool =>
    let tau := k # 12 in
    [k; if replace then 1%Z else 0%Z]
    ++ fraction (quantile_delta replace tau) ++ fraction (regression_delta replace tau))
    [true; false]) twelfths.
Definition small_data := [[]; [0]; [2]; [1; 1]; [0; 2]; [0; 1; 1]; [2; 2; 2]; [0; 1; 2; 2]]%Z.
Definition coded (D : list Z) := fold_left (fun c y => 4 * c + y + 1)%Z D 0%Z.
Definition scores_table :=
  flat_map (fun k => flat_map (fun D => map (fun t =>
    [k; coded D; t] ++ fraction (score (k # 12) t D)) [0; 1; 2]%Z) small_data) [1; 5; 6; 10]%Z.
Definition halves := map (fun k => Z.of_nat k - 4)%Z (seq 0 9).
Definition hull_table :=
  flat_map (fun M => flat_map (fun u => map (fun v =>
    [M; u; v] ++ fraction (hull_norm (M # 12) (u # 2) (v # 2))) halves) halves) [7; 9; 12]%Z.
