(* The hull of what one record contributes to several sums: column j's contribution lies within h j
   of m j, and a record may be left out. A point of the hull is s m + w, with s from -1 to 1. *)

From Coq Require Import Reals Lra List.
Import ListNotations.
Open Scope R_scope.

Section Box.

Variables m h : nat -> R.

Definition within (c : nat -> R) := forall j, Rabs (c j - m j) <= h j.

Definition at_share wide s (u : nat -> R) := forall j, Rabs (u j - s * m j) <= wide * h j.

(* A record comes or goes; it is replaced, and may be left out before or after. *)
Definition in_hull u := exists s, -1 <= s <= 1 /\ at_share 1 s u.
Definition in_hull_of_replaced u := exists s, -1 <= s <= 1 /\ at_share (2 - Rabs s) s u.

Lemma both_sides x b : Rabs x <= b <-> - b <= x <= b.
Proof.
  split; [| intros H; apply Rabs_le; exact H].
  unfold Rabs; destruct (Rcase_abs x); lra.
Qed.

Lemma size_of_1 : Rabs 1 = 1 /\ Rabs (-1) = 1 /\ Rabs 0 = 0.
Proof. repeat split; unfold Rabs; destruct (Rcase_abs _); lra. Qed.

Theorem a_record_more_or_less_is_inside c : within c ->
  in_hull c /\ in_hull (fun j => - c j).
Proof.
  intros C; split; [exists 1 | exists (-1)]; (split; [lra |]);
    intros j; pose proof (proj1 (both_sides _ _) (C j)); apply both_sides; lra.
Qed.

Theorem a_record_replaced_is_inside c c' : within c -> within c' ->
  in_hull_of_replaced (fun j => c j - c' j).
Proof.
  intros C C'; exists 0; split; [lra |]; intros j; rewrite Rabs_R0.
  pose proof (proj1 (both_sides _ _) (C j)); pose proof (proj1 (both_sides _ _) (C' j)).
  apply both_sides; lra.
Qed.

Theorem a_record_left_out_is_inside c : within c ->
  in_hull_of_replaced c /\ in_hull_of_replaced (fun j => - c j).
Proof.
  destruct size_of_1 as [one [minus _]].
  intros C; split; [exists 1 | exists (-1)]; (split; [lra |]);
    intros j; pose proof (proj1 (both_sides _ _) (C j)); apply both_sides;
    [rewrite one | rewrite minus]; lra.
Qed.

(* The inequalities are those of halfspaces in u and s. *)
Theorem halfspaces_of_a_column x centre half s : Rabs (x - s * centre) <= 1 * half <->
  x - centre * s <= half /\ - x + centre * s <= half.
Proof. rewrite both_sides; lra. Qed.

Theorem halfspaces_of_a_replaced_column x centre half s : 0 <= half ->
  Rabs (x - s * centre) <= (2 - Rabs s) * half <->
  (x + (- centre + half) * s <= 2 * half /\ x + (- centre - half) * s <= 2 * half) /\
  (- x + (centre + half) * s <= 2 * half /\ - x + (centre - half) * s <= 2 * half).
Proof.
  intros H; rewrite both_sides; unfold Rabs; destruct (Rcase_abs s) as [N | P]; split.
  all: intros K; pose proof (Rmult_le_compat_r half) as M.
  - assert (s * half <= 0) by (rewrite <- (Rmult_0_l half); apply M; lra); lra.
  - lra.
  - assert (0 <= s * half) by (rewrite <- (Rmult_0_l half) at 1; apply M; lra); lra.
  - lra.
Qed.

(* Nothing else is inside: points are mixtures of contributions. *)
Theorem points_are_mixtures u : in_hull u ->
  exists a b c c', 0 <= a /\ 0 <= b /\ a + b = 1 /\ within c /\ within c' /\
    forall j, u j = a * c j - b * c' j.
Proof.
  intros [s [S U]].
  exists ((1 + s) / 2), ((1 - s) / 2).
  exists (fun j => m j + (u j - s * m j)), (fun j => m j - (u j - s * m j)).
  repeat split; try lra.
  - intros j; pose proof (proj1 (both_sides _ _) (U j)); apply both_sides; lra.
  - intros j; pose proof (proj1 (both_sides _ _) (U j)); apply both_sides; lra.
  - intros j; field.
Qed.

Theorem points_of_replaced_are_mixtures u : in_hull_of_replaced u ->
  exists a b c c', 0 <= a <= 1 /\ 0 <= b <= 1 /\ within c /\ within c' /\
    forall j, u j = a * c j - b * c' j.
Proof.
  intros [s [S U]]; set (wide := 2 - Rabs s).
  assert (W : 1 <= wide) by (unfold wide, Rabs; destruct (Rcase_abs s); lra).
  assert (scaled : forall j, Rabs ((u j - s * m j) / wide) <= h j).
  { intros j; unfold Rdiv; rewrite Rabs_mult, (Rabs_right (/ wide)).
    - apply (Rmult_le_reg_r wide); [lra |].
      replace (Rabs (u j - s * m j) * / wide * wide) with (Rabs (u j - s * m j)) by (field; lra).
      rewrite (Rmult_comm (h j)); exact (U j).
    - apply Rle_ge, Rlt_le, Rinv_0_lt_compat; lra. }
  exists ((wide + s) / 2), ((wide - s) / 2).
  exists (fun j => m j + (u j - s * m j) / wide), (fun j => m j - (u j - s * m j) / wide).
  assert (share : - wide <= s <= wide /\ wide + s <= 2 /\ wide - s <= 2).
  { unfold wide, Rabs in *; destruct (Rcase_abs s); lra. }
  repeat split; try lra.
  - intros j; pose proof (proj1 (both_sides _ _) (scaled j)); apply both_sides; lra.
  - intros j; pose proof (proj1 (both_sides _ _) (scaled j)); apply both_sides; lra.
  - intros j; field; lra.
Qed.

End Box.

(* Facets: what bounds s from above with what bounds it from below. *)
Theorem a_bound_from_above_and_one_from_below x p b y q d : 0 < p -> q < 0 ->
  (d - y) / q <= (b - x) / p <-> x / p - y / q <= b / p - d / q.
Proof. intros _ _; unfold Rdiv; rewrite !Rmult_minus_distr_r; split; lra. Qed.

Theorem a_bound_from_above x p b s : 0 < p -> (x + p * s <= b <-> s <= (b - x) / p).
Proof.
  intros P; split; intros H.
  - apply (Rmult_le_reg_l p); [exact P |]; unfold Rdiv.
    replace (p * ((b - x) * / p)) with (b - x) by (field; lra); lra.
  - apply (Rmult_le_compat_l p) in H; [| lra]; unfold Rdiv in H.
    replace (p * ((b - x) * / p)) with (b - x) in H by (field; lra); lra.
Qed.

Theorem a_bound_from_below y q d s : q < 0 -> (y + q * s <= d <-> (d - y) / q <= s).
Proof.
  intros Q; pose proof (a_bound_from_above y (- q) d (- s)) as A.
  replace ((d - y) / - q) with (- ((d - y) / q)) in A by (field; lra).
  replace (y + - q * - s) with (y + q * s) in A by ring.
  split; intros H; [assert (- s <= - ((d - y) / q)) by (apply A; lra) | apply A]; lra.
Qed.

Lemma largest (lower : list R) : lower <> [] ->
  exists s, In s lower /\ forall l, In l lower -> l <= s.
Proof.
  induction lower as [| first rest IH]; intros N; [contradiction |].
  destruct rest as [| second others].
  - exists first; split; [left; reflexivity |]; intros l [L | []]; lra.
  - destruct IH as [s [I M]]; [discriminate |].
    destruct (Rle_dec first s) as [F | F].
    + exists s; split; [right; exact I |]; intros l [L | L]; [lra | exact (M l L)].
    + exists first; split; [left; reflexivity |].
      intros l [L | L]; [lra | pose proof (M l L); lra].
Qed.

Theorem no_other_facet_is_needed (lower upper : list R) : lower <> [] ->
  (exists s, (forall l, In l lower -> l <= s) /\ (forall r, In r upper -> s <= r)) <->
  (forall l r, In l lower -> In r upper -> l <= r).
Proof.
  intros N; split.
  - intros [s [L U]] l r Hl Hr; pose proof (L l Hl); pose proof (U r Hr); lra.
  - intros A; destruct (largest lower N) as [s [I M]].
    exists s; split; [exact M | intros r R; exact (A s r I R)].
Qed.
