(* The ledger never overspends: whatever is asked of an account, in whatever order.

   [after] and [approved] are the two rules that make a new balance of an old one, and
   [may_become] is what verification asks of every pair of lines. Amounts are integers of the
   account's own unit. A step that is refused changes nothing. *)

From Coq Require Import ZArith Bool List Lia.
Import ListNotations.
Open Scope Z_scope.

Inductive kind := Open | Grant | Expire | Debit | Reserve | Unreserve | Burn.

Record balance := Balance { total : Z; spent : Z; reserved : Z }.

Definition max_total := 10 ^ 18.

Definition remaining b := total b - spent b - reserved b.

Definition good_amount k x := match k with Open => 0 <=? x | _ => 1 <=? x end.

Definition after b k x :=
  if negb (good_amount k x) then None
  else match k with
  | Debit | Burn =>
      if x <=? remaining b then Some (Balance (total b) (spent b + x) (reserved b)) else None
  | Reserve =>
      if x <=? remaining b then Some (Balance (total b) (spent b) (reserved b + x)) else None
  | Open | Grant =>
      if total b + x <=? max_total then Some (Balance (total b + x) (spent b) (reserved b))
      else None
  | Expire =>
      Some (Balance (Z.max (spent b + reserved b) (total b - x)) (spent b) (reserved b))
  | Unreserve =>
      if x <=? reserved b then Some (Balance (total b) (spent b) (reserved b - x)) else None
  end.

(* The debit of what was reserved for a review. *)
Definition approved b x :=
  if (1 <=? x) && (x <=? reserved b)
  then Some (Balance (total b) (spent b + x) (reserved b - x)) else None.

Inductive step := Entry (k : kind) (x : Z) | Approve (x : Z).

Definition take b s := match s with Entry k x => after b k x | Approve x => approved b x end.

Definition next b s := match take b s with Some b' => b' | None => b end.

Definition run b steps := fold_left next steps b.

Definition sound b :=
  0 <= spent b /\ 0 <= reserved b /\ spent b + reserved b <= total b <= max_total.

(* What an accepted step adds to what is spent, and to the total. *)
Definition debited s := match s with Entry Debit x | Entry Burn x | Approve x => x | _ => 0 end.
Definition granted s := match s with Entry Open x | Entry Grant x => x | _ => 0 end.

Fixpoint sum_accepted (f : step -> Z) b steps :=
  match steps with
  | [] => 0
  | s :: rest => (match take b s with Some _ => f s | None => 0 end)
                 + sum_accepted f (next b s) rest
  end.

Ltac cases :=
  repeat match goal with
  | k : kind |- _ => destruct k
  | H : context [if ?c then _ else _] |- _ => destruct c eqn:?; simpl in *
  | H : Some _ = Some _ |- _ => injection H as H; subst; simpl in *
  | H : None = Some _ |- _ => discriminate
  | H : _ && _ = true |- _ => apply andb_prop in H; destruct H
  | H : _ && _ = false |- _ => apply andb_false_iff in H
  | H : negb _ = _ |- _ => apply (f_equal negb) in H; rewrite negb_involutive in H; simpl in H
  | H : (_ <=? _) = true |- _ => apply Z.leb_le in H
  | H : (_ <=? _) = false |- _ => apply Z.leb_gt in H
  end.

Lemma step_is_sound b s b' : sound b -> take b s = Some b' -> sound b'.
Proof.
  destruct b as [t sp r], s as [k x | x]; unfold sound, take, after, approved, remaining, good_amount;
    simpl; intros H E; cases; lia.
Qed.

Lemma next_is_sound b s : sound b -> sound (next b s).
Proof. unfold next; destruct (take b s) eqn:E; eauto using step_is_sound. Qed.

Theorem never_overspends steps : forall b, sound b -> sound (run b steps).
Proof. induction steps; simpl; auto using next_is_sound. Qed.

Lemma step_spends b s b' :
  take b s = Some b' -> spent b' = spent b + debited s /\ 0 <= debited s.
Proof.
  destruct b as [t sp r], s as [k x | x]; unfold take, after, approved, remaining, good_amount;
    simpl; intros E; cases; lia.
Qed.

(* What is spent is the sum of the accepted debits, and never falls. *)
Theorem spent_is_what_was_debited steps : forall b,
  spent (run b steps) = spent b + sum_accepted debited b steps
  /\ 0 <= sum_accepted debited b steps.
Proof.
  induction steps as [| s rest IH]; simpl; intros b; [lia |].
  specialize (IH (next b s)); unfold next in *.
  destruct (take b s) eqn:E; [destruct (step_spends _ _ _ E) |]; lia.
Qed.

Lemma step_grants b s b' : sound b -> take b s = Some b' -> total b' <= total b + granted s.
Proof.
  destruct b as [t sp r], s as [k x | x];
    unfold sound, take, after, approved, remaining, good_amount; simpl; intros H E; cases; lia.
Qed.

Lemma total_is_granted steps : forall b,
  sound b -> total (run b steps) <= total b + sum_accepted granted b steps.
Proof.
  induction steps as [| s rest IH]; simpl; intros b H; [lia |].
  pose proof (next_is_sound b s H) as H'; specialize (IH _ H'); unfold next in *.
  destruct (take b s) eqn:E; [pose proof (step_grants _ _ _ H E) |]; lia.
Qed.

(* All debits of an account's life together stay within all grants of it. *)
Theorem debits_within_grants steps :
  let b := Balance 0 0 0 in sum_accepted debited b steps <= sum_accepted granted b steps.
Proof.
  intros b; assert (H : sound b) by (unfold b, sound, max_total; simpl; lia).
  pose proof (never_overspends steps b H) as (_ & R & S & _).
  destruct (spent_is_what_was_debited steps b) as [E _].
  pose proof (total_is_granted steps b H) as T; simpl in *; lia.
Qed.

(* Verification. A kind that is none of the above moves nothing. *)
Definition same b c :=
  (total b =? total c) && (spent b =? spent c) && (reserved b =? reserved c).

Definition leads_to c found := match found with Some b => same b c | None => false end.

Definition may_become b c (k : option kind) x :=
  (0 <=? spent c) && (0 <=? reserved c) && (0 <=? remaining c)
  && match k with
     | None => (x =? 0) && same c b
     | Some Debit =>
         if negb (reserved c =? reserved b) then leads_to c (approved b x)
         else leads_to c (after b Debit x)
     | Some k => leads_to c (after b k x)
     end.

Lemma same_is_equal b c : same b c = true <-> b = c.
Proof.
  destruct b, c; unfold same; simpl; rewrite !andb_true_iff, !Z.eqb_eq; split.
  - intros [[-> ->] ->]; reflexivity.
  - intros E; injection E; auto.
Qed.

Lemma leads_to_is_equal c found : leads_to c found = true <-> found = Some c.
Proof.
  destruct found; simpl; [rewrite same_is_equal |]; split; congruence.
Qed.

Lemma approving_moves b c x : approved b x = Some c -> reserved c <> reserved b.
Proof. destruct b; unfold approved; simpl; intros E; cases; lia. Qed.

Lemma debiting_stays b c x : after b Debit x = Some c -> reserved c = reserved b.
Proof. destruct b; unfold after, good_amount; simpl; intros E; cases; reflexivity. Qed.

Lemma bounds_hold c : sound c ->
  (0 <=? spent c) && (0 <=? reserved c) && (0 <=? remaining c) = true.
Proof.
  unfold sound, remaining; intros H; rewrite !andb_true_iff, !Z.leb_le; lia.
Qed.

(* From a sound balance it accepts just what a step can do: no forgery, no false alarm. *)
Theorem verification_is_exact b c k x : sound b ->
  (may_become b c (Some k) x = true
   <-> take b (Entry k x) = Some c \/ (k = Debit /\ take b (Approve x) = Some c)).
Proof.
  intros H; split.
  - unfold may_become; rewrite andb_true_iff; intros [_ M]; destruct k;
      try (apply leads_to_is_equal in M; left; exact M).
    destruct (negb _); apply leads_to_is_equal in M; [right | left]; auto.
  - intros M.
    assert (S : sound c) by (destruct M as [M | [_ M]]; eapply step_is_sound; eauto).
    unfold may_become; rewrite (bounds_hold c S); simpl.
    destruct M as [M | [-> M]].
    + destruct k; try (apply leads_to_is_equal; exact M).
      pose proof (debiting_stays _ _ _ M) as E; apply Z.eqb_eq in E; rewrite E; simpl.
      apply leads_to_is_equal; exact M.
    + pose proof (approving_moves _ _ _ M) as E; apply Z.eqb_neq in E; rewrite E; simpl.
      apply leads_to_is_equal; exact M.
Qed.

(* Blocks of entries of one kind. Each adds its amount to one part of the balance; a result, which
   is none of the kinds above, has no amount. Verification adds up, and looks at the two ends. *)
Definition grown b (k : option kind) x :=
  match k with
  | Some Grant | None => Balance (total b + x) (spent b) (reserved b)
  | Some Debit | Some Burn => Balance (total b) (spent b + x) (reserved b)
  | Some Reserve => Balance (total b) (spent b) (reserved b + x)
  | _ => b
  end.

Definition grows (k : option kind) :=
  match k with
  | Some Grant | Some Debit | Some Burn | Some Reserve | None => true
  | _ => false
  end.

Fixpoint sums b k xs :=
  match xs with [] => [] | x :: rest => grown b k x :: sums (grown b k x) k rest end.

Definition good_in_block (k : option kind) x := match k with None => x = 0 | Some _ => 1 <= x end.

Fixpoint each_follows b k xs cs :=
  match xs, cs with
  | [], [] => True
  | x :: xs, c :: cs => may_become b c k x = true /\ each_follows c k xs cs
  | _, _ => False
  end.

Lemma last_of_more (l : list balance) : forall c d, last (c :: l) d = last l c.
Proof.
  induction l as [| x l IH]; intros c d; [reflexivity |].
  change (last (x :: l) d = last (x :: l) c); rewrite (IH x d), (IH x c); reflexivity.
Qed.

Lemma end_of_sums k xs : forall b,
  grows k = true -> last (sums b k xs) b = grown b k (fold_right Z.add 0 xs).
Proof.
  induction xs as [| x rest IH]; intros [t s r] G.
  - destruct k as [[] |]; simpl in *; try discriminate; f_equal; lia.
  - cbn [sums]; rewrite last_of_more, IH by exact G.
    destruct k as [[] |]; simpl in *; try discriminate; f_equal; lia.
Qed.

Lemma sum_is_positive k xs :
  Forall (good_in_block k) xs -> 0 <= fold_right Z.add 0 xs.
Proof.
  induction 1 as [| x rest G _ IH]; simpl; [lia |].
  destruct k; simpl in G; lia.
Qed.

Theorem a_block_follows_if_its_ends_do k xs : forall b,
  grows k = true ->
  Forall (good_in_block k) xs ->
  0 <= spent b /\ 0 <= reserved b /\ spent b + reserved b <= total b ->
  (let e := last (sums b k xs) b in spent e + reserved e <= total e <= max_total) ->
  each_follows b k xs (sums b k xs).
Proof.
  induction xs as [| x rest IH]; intros b G A B E; [exact I |].
  inversion A as [| ? ? Ax Arest]; subst.
  pose proof (sum_is_positive _ _ Arest) as P.
  cbn [sums] in E; rewrite last_of_more in E.
  pose proof E as F; rewrite end_of_sums in F by exact G.
  cbn [sums each_follows]; split.
  - destruct b as [t s r], k as [[] |]; simpl in *; try discriminate;
      unfold may_become, remaining; simpl; try rewrite Z.eqb_refl; simpl;
      unfold after, good_amount, remaining, leads_to, same; simpl;
      repeat match goal with
      | |- context [?a <=? ?c] =>
          replace (a <=? c) with true by (symmetry; apply Z.leb_le; lia); simpl
      | |- context [?a =? ?c] =>
          replace (a =? c) with true by (symmetry; apply Z.eqb_eq; lia); simpl
      end; reflexivity.
  - apply IH; auto.
    destruct b as [t s r], k as [[] |]; simpl in *; try discriminate; lia.
Qed.

(* Small balances under every kind, for the comparison with the program: what is asked, then the
   balance after it, or nothing where it is refused. A kind is its place in the list. *)
Definition kinds := [Open; Grant; Expire; Debit; Reserve; Unreserve; Burn].
Definition small n := map Z.of_nat (seq 0 n).
Definition balances :=
  flat_map (fun t => flat_map (fun s => flat_map (fun r =>
    if s + r <=? t then [Balance t s r] else []) (small 4)) (small 4)) (small 4).
Definition shown found :=
  match found with Some b => [total b; spent b; reserved b] | None => [] end.
Definition steps_table :=
  flat_map (fun b => flat_map (fun x =>
    map (fun k => [total b; spent b; reserved b; Z.of_nat k; x]
                  ++ shown (after b (nth k kinds Open) x)) (seq 0 7)
    ++ [[total b; spent b; reserved b; 7; x] ++ shown (approved b x)]) (-1 :: small 4)) balances.
