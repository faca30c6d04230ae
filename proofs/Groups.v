(* One person, several rows. Between neighbours that differ by all rows of a person lies a chain of
   data sets, each differing from the one before by one row. *)

From Coq Require Import Reals QArith ZArith List Lia Lra Psatz.
Import ListNotations.
Open Scope R_scope.

Section Chain.
  Context {D Y : Type}.
  Variable probability : D -> Y -> R.
  Variable by_one_row : D -> D -> Prop.

  (* From D to D' in so many rows. *)
  Inductive chain : nat -> D -> D -> Prop :=
  | here d : chain 0 d d
  | further m d e f : by_one_row d e -> chain m e f -> chain (S m) d f.

  Hypothesis proper : forall d y, 0 <= probability d y.

  Lemma chain_loses m d d' share y :
    (forall d e, by_one_row d e -> probability d y <= exp share * probability e y) ->
    chain m d d' -> probability d y <= exp (INR m * share) * probability d' y.
  Proof.
    intros H C; induction C as [d | m d e f S C IH].
    - simpl; rewrite Rmult_0_l, exp_0; lra.
    - rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, Rplus_comm, exp_plus.
      pose proof (H _ _ S); pose proof (exp_pos share); nra.
  Qed.

  (* Each row at epsilon / k: a person of up to k rows loses at most epsilon. *)
  Theorem people_lose_epsilon k m d d' epsilon y : 0 <= epsilon -> (0 < k)%nat -> (m <= k)%nat ->
    (forall d e, by_one_row d e -> probability d y <= exp (epsilon / INR k) * probability e y) ->
    chain m d d' -> probability d y <= exp epsilon * probability d' y.
  Proof.
    intros E K M H C; pose proof (chain_loses m d d' _ y H C) as L.
    apply lt_0_INR in K; apply le_INR in M; pose proof (pos_INR m).
    assert (B : INR m * (epsilon / INR k) <= epsilon).
    { replace epsilon with (INR k * (epsilon / INR k)) at 2 by (field; lra).
      apply Rmult_le_compat_r; [| exact M].
      apply Rmult_le_pos; [exact E | left; apply Rinv_0_lt_compat; exact K]. }
    assert (X : exp (INR m * (epsilon / INR k)) <= exp epsilon).
    { destruct B as [B | ->]; [left; apply exp_increasing; exact B | right; reflexivity]. }
    pose proof (proper d' y); nra.
  Qed.

  (* A statistic that one row moves by at most Delta, in any measure of distance. *)
  Variable distance : D -> D -> R.
  Hypothesis none : forall d, distance d d = 0.
  Hypothesis triangle : forall d e f, distance d f <= distance d e + distance e f.

  Theorem people_move_k_delta k m d d' delta : 0 <= delta -> (m <= k)%nat ->
    (forall d e, by_one_row d e -> distance d e <= delta) ->
    chain m d d' -> distance d d' <= INR k * delta.
  Proof.
    intros P M H C; assert (L : distance d d' <= INR m * delta).
    { clear M; induction C as [d | m d e f S C IH].
      - rewrite none; simpl; lra.
      - rewrite S_INR; pose proof (triangle d e f); pose proof (H _ _ S); lra. }
    apply le_INR in M; nra.
  Qed.

  (* Where each row's log ratio varies by at most epsilon / k, a person's varies by epsilon. *)
  Variable log_ratio : D -> D -> Y -> R.
  Hypothesis adds_up : forall d e f y, log_ratio d f y = log_ratio d e y + log_ratio e f y.

  Theorem people_keep_bounded_range k m d d' epsilon y z : 0 <= epsilon -> (0 < k)%nat ->
    (m <= k)%nat ->
    (forall d e, by_one_row d e -> log_ratio d e y - log_ratio d e z <= epsilon / INR k) ->
    chain m d d' -> log_ratio d d' y - log_ratio d d' z <= epsilon.
  Proof.
    intros E K M H C.
    assert (L : log_ratio d d' y - log_ratio d d' z <= INR m * (epsilon / INR k)).
    { clear M; induction C as [d | m d e f S C IH].
      - pose proof (adds_up d d d y); pose proof (adds_up d d d z); simpl; lra.
      - rewrite S_INR, (adds_up d e f y), (adds_up d e f z); pose proof (H _ _ S); lra. }
    apply lt_0_INR in K; apply le_INR in M; pose proof (pos_INR m).
    assert (INR m * (epsilon / INR k) <= INR k * (epsilon / INR k)).
    { apply Rmult_le_compat_r; [| exact M].
      apply Rmult_le_pos; [exact E | left; apply Rinv_0_lt_compat; exact K]. }
    replace (INR k * (epsilon / INR k)) with epsilon in * by (field; lra); lra.
  Qed.
End Chain.

(* In zCDP a pure draw at epsilon / k costs (epsilon / k)^2 / 2 for a row, and k^2 times that for a
   person: what any draw at epsilon costs. *)
Theorem people_cost_k_squared (k epsilon : Q) : ~ (k == 0)%Q ->
  (k * k * ((epsilon / k) * (epsilon / k) / 2) == epsilon * epsilon / 2)%Q.
Proof. intros; field; assumption. Qed.

(* One of k equal parts of epsilon. *)
Definition part_of (epsilon : Q) (k : positive) := (epsilon * (1 # k))%Q.

Theorem parts_sum_to_epsilon epsilon k : (inject_Z (Zpos k) * part_of epsilon k == epsilon)%Q.
Proof.
  unfold part_of; setoid_replace (1 # k)%Q with (/ inject_Z (Zpos k))%Q by reflexivity.
  field; intros H; discriminate H.
Qed.

(* Computed for the comparison with the program: epsilon in tenths and k, then the exact part. *)
Definition fraction (q : Q) := let r := Qred q in [Qnum r; Zpos (Qden r)].
Definition parts_table :=
  flat_map (fun e => map (fun k => [Zpos e; Zpos k] ++ fraction (part_of (Zpos e # 10) k))
    [1; 2; 3; 7; 10; 100]%positive) [1; 2; 5; 10; 30]%positive.
