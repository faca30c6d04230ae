(* A statistic in every public group of the records: `by`. A record is in one group at most, by a
   public map of the record alone, and the groups' draws are independent. Filters are the case of
   one group, and no draw. *)

From Coq Require Import Reals List Arith Lia Lra Psatz Bool.
Import ListNotations.
Open Scope R_scope.

(* Neighbours: the second data set has one record more, or another in the place of one. *)
Inductive added {Row} : list Row -> list Row -> Prop :=
  added_at l x r : added (l ++ r) (l ++ x :: r).
Inductive replaced {Row} : list Row -> list Row -> Prop :=
  replaced_at l x x' r : replaced (l ++ x :: r) (l ++ x' :: r).

Section Groups.
  Context {Row Answer : Type}.
  Variable groups : nat.
  Variable group : Row -> option nat.

  Definition is_in c row := match group row with Some g => Nat.eqb g c | None => false end.

  (* D_c, the records in group c. *)
  Definition part c (D : list Row) := filter (is_in c) D.

  Definition one_apart (D D' : list Row) := D = D' \/ added D D' \/ added D' D.

  (* The probability that group c's draw on its records is this answer. *)
  Variable draw : nat -> list Row -> Answer -> R.
  Hypothesis proper : forall c D y, 0 <= draw c D y.

  Definition product (f : nat -> R) cs := fold_right (fun c p => f c * p) 1 cs.

  (* Independent draws. *)
  Definition release D (answers : nat -> Answer) :=
    product (fun c => draw c (part c D) (answers c)) (seq 0 groups).

  (* A record more changes its own group alone, by one record more. *)
  Theorem one_record_is_in_one_part l x r c :
    (is_in c x = true -> added (part c (l ++ r)) (part c (l ++ x :: r)))
    /\ (is_in c x = false -> part c (l ++ r) = part c (l ++ x :: r)).
  Proof.
    unfold part; rewrite !filter_app; simpl; destruct (is_in c x); split; intros; try discriminate.
    - apply added_at.
    - reflexivity.
  Qed.

  Theorem groups_are_disjoint x c e : is_in c x = true -> is_in e x = true -> c = e.
  Proof.
    unfold is_in; destruct (group x) as [g |]; [| discriminate].
    rewrite !Nat.eqb_eq; congruence.
  Qed.

  Lemma product_not_negative f l : (forall c, 0 <= f c) -> 0 <= product f l.
  Proof.
    intros P; induction l as [| c l IH]; simpl; [lra |].
    apply Rmult_le_pos; [apply P | exact IH].
  Qed.

  Lemma product_same f g l : (forall c, In c l -> f c = g c) -> product f l = product g l.
  Proof.
    intros E; induction l as [| c l IH]; simpl; [reflexivity |].
    rewrite E, IH; [reflexivity | |]; intros; try apply E; simpl; auto.
  Qed.

  (* Factors that are the same but for one: the product moves at most as that one does. *)
  Lemma product_moves f g k l special : 1 <= k -> NoDup l ->
    (forall c, 0 <= f c) -> (forall c, 0 <= g c) ->
    (forall c, c <> special -> f c = g c) -> f special <= k * g special ->
    product f l <= k * product g l.
  Proof.
    intros K N F G E S; induction l as [| c l IH]; simpl; [lra |].
    inversion N as [| ? ? A N']; subst; specialize (IH N').
    pose proof (product_not_negative f l F); pose proof (product_not_negative g l G).
    destruct (Nat.eq_dec c special) as [-> | O].
    - rewrite (product_same f g l) in * by (intros d I; apply E; intros ->; contradiction).
      rewrite <- Rmult_assoc; apply Rmult_le_compat_r; assumption.
    - rewrite (E c O), <- Rmult_assoc, (Rmult_comm k), Rmult_assoc.
      apply Rmult_le_compat_l; [apply G | exact IH].
  Qed.

  Lemma release_not_negative D answers : 0 <= release D answers.
  Proof. apply product_not_negative; intros; apply proper. Qed.

  (* The draw of each group loses at most e where its records are one apart. *)
  Definition loses e := forall c P P' y, one_apart P P' -> draw c P y <= exp e * draw c P' y.

  Lemma one_more_or_less e D D' answers : 0 <= e -> loses e -> added D D' ->
    release D answers <= exp e * release D' answers
    /\ release D' answers <= exp e * release D answers.
  Proof.
    intros E L N; destruct N as [l x r]; unfold release.
    assert (K : 1 <= exp e).
    { destruct E as [E | <-]; [| rewrite exp_0; lra].
      left; rewrite <- exp_0; apply exp_increasing; exact E. }
    set (special := match group x with Some g => g | None => 0%nat end).
    assert (O : forall c, c <> special -> part c (l ++ r) = part c (l ++ x :: r)).
    { intros c C; apply one_record_is_in_one_part; unfold is_in, special in *.
      destruct (group x) as [g |]; [| reflexivity]; apply Nat.eqb_neq; congruence. }
    assert (S : one_apart (part special (l ++ r)) (part special (l ++ x :: r))).
    { destruct (one_record_is_in_one_part l x r special) as [A B].
      destruct (is_in special x); [right; left; auto | left; auto]. }
    assert (S' : one_apart (part special (l ++ x :: r)) (part special (l ++ r))).
    { unfold one_apart in *; destruct S as [S | [S | S]]; auto. }
    split; (apply product_moves with special;
      [exact K | apply seq_NoDup | intros; apply proper | intros; apply proper
      | intros c C; rewrite (O c C); reflexivity | apply L; assumption]).
  Qed.

  (* Add-remove: every group has the whole epsilon. *)
  Theorem parallel_composition epsilon D D' answers : 0 <= epsilon -> loses epsilon ->
    added D D' \/ added D' D ->
    release D answers <= exp epsilon * release D' answers.
  Proof. intros E L [N | N]; apply (one_more_or_less epsilon _ _ answers E L N). Qed.

  (* Replace-one: the record leaves a group and another enters one, perhaps the same. So it costs
     twice, and each group has half of epsilon. *)
  Theorem twice_under_replacement epsilon D D' answers : 0 <= epsilon -> loses (epsilon / 2) ->
    replaced D D' ->
    release D answers <= exp epsilon * release D' answers.
  Proof.
    intros E L N; destruct N as [l x x' r].
    assert (H : 0 <= epsilon / 2) by lra.
    destruct (one_more_or_less _ _ _ answers H L (added_at l x r)) as [_ A].
    destruct (one_more_or_less _ _ _ answers H L (added_at l x' r)) as [B _].
    replace epsilon with (epsilon / 2 + epsilon / 2) by field; rewrite exp_plus, Rmult_assoc.
    eapply Rle_trans; [exact A | apply Rmult_le_compat_l; [left; apply exp_pos | exact B]].
  Qed.
End Groups.

Section Filters.
  Context {Row : Type}.
  Variable meets : Row -> bool.

  (* Any one change: the number of rows may go up or down, or stay. *)
  Definition any_one_change (D D' : list Row) :=
    D = D' \/ added D D' \/ added D' D \/ replaced D D'.

  (* Under add-remove the selected records are equal or one apart. *)
  Theorem filters_keep_neighbours D D' : added D D' ->
    filter meets D = filter meets D' \/ added (filter meets D) (filter meets D').
  Proof.
    intros N; destruct N as [l x r]; rewrite !filter_app; simpl.
    destruct (meets x); [right; apply added_at | left; reflexivity].
  Qed.

  (* Under replace-one they differ by any one change, and by no more. *)
  Theorem filters_make_any_one_change D D' : replaced D D' ->
    any_one_change (filter meets D) (filter meets D').
  Proof.
    intros N; destruct N as [l x x' r]; rewrite !filter_app; simpl; unfold any_one_change.
    destruct (meets x), (meets x').
    - right; right; right; apply replaced_at.
    - right; right; left; apply added_at.
    - right; left; apply added_at.
    - left; reflexivity.
  Qed.
End Filters.
