(* Several draws on the same records, independent of each other, each at its share of epsilon. *)

From Coq Require Import Reals QArith ZArith List Lra.
Import ListNotations.
Open Scope R_scope.

(* What one part's draw is worth: the probability of its answer under D and under D', and what it
   may lose. *)
Record part := Part { here : R; there : R; loss : R }.

Definition good p := 0 <= here p /\ 0 <= there p /\ here p <= exp (loss p) * there p.
Definition product f (parts : list part) := fold_right (fun p t => f p * t) 1 parts.
Definition losses parts := fold_right (fun p t => loss p + t) 0 parts.

Lemma product_not_negative parts : Forall good parts ->
  0 <= product here parts /\ 0 <= product there parts.
Proof.
  intros G; induction G as [| p l (H & T & _) G [IH IH']]; simpl; [lra |].
  split; apply Rmult_le_pos; assumption.
Qed.

Theorem independent_draws_add_up parts : Forall good parts ->
  product here parts <= exp (losses parts) * product there parts.
Proof.
  intros G; induction G as [| p l (H & T & L) G IH]; simpl; [rewrite exp_0; lra |].
  destruct (product_not_negative l G).
  rewrite exp_plus.
  replace (exp (loss p) * exp (losses l) * (there p * product there l))
    with (exp (loss p) * there p * (exp (losses l) * product there l)) by ring.
  apply Rmult_le_compat; assumption.
Qed.

(* Shares of epsilon in proportion to positive numbers: their sum is epsilon, and not epsilon up to
   a rounding. *)
Definition whole (shares : list Q) := fold_right Qplus 0%Q shares.
Definition split (epsilon : Q) shares :=
  map (fun share => share * (epsilon / whole shares))%Q shares.

Theorem shares_sum_to_epsilon epsilon shares : ~ (whole shares == 0)%Q ->
  (whole (split epsilon shares) == epsilon)%Q.
Proof.
  intros N.
  assert (E : forall unit l, (whole (map (fun share => share * unit) l) == whole l * unit)%Q).
  { intros unit l; induction l as [| s l IH]; simpl; [ring | rewrite IH; ring]. }
  unfold split; rewrite E; field; exact N.
Qed.

(* Computed for the comparison with the program: epsilon in tenths and three numbers, then the
   three exact shares. *)
Definition fraction (q : Q) := let r := Qred q in [Qnum r; Zpos (Qden r)].
Definition shares_table :=
  flat_map (fun e => map (fun s : Z * Z * Z => let '(a, b, c) := s in
    [Zpos e; a; b; c] ++ flat_map fraction
      (split (Zpos e # 10) (map inject_Z [a; b; c])))
    [(1, 1, 1); (1, 2, 3); (5, 1, 4); (1, 1, 8); (7, 2, 2)]%Z) [1; 2; 5; 10; 30]%positive.
