# Releases and study plans that wait for a review: decisions, revisions, comments and draws.

#' Decide on releases that wait for a review
#'
#' A curator approves or rejects the request of another person, or requests changes. Where two
#' reviewers decide, each of these is a vote. The requester may revise a request whose reviewers
#' want changes, answer with a comment, or withdraw it.
#'
#' A decision and a revision apply to the version that was read. If it has changed, they are
#' refused with the code `"precondition"`.
#'
#' @param desk A [release_desk()].
#' @param id The id of a release.
#' @param reason Stored in the ledger. The requester will see this text.
#' @return The release, as it is then.
#' @examples
#' \dontrun{
#' approve(release_desk(), "rel_1", reason = "within the protocol of the study")
#' request_changes(release_desk(), "rel_2", reason = "an epsilon of 0.2 is plenty")
#' revise(release_desk(), "rel_2", "mean", columns = "income", epsilon = 0.2)
#' }
#' @export
approve <- function(desk, id, reason) decide(desk, id, "approve", reason)

#' @rdname approve
#' @export
reject <- function(desk, id, reason) decide(desk, id, "reject", reason)

#' @rdname approve
#' @export
request_changes <- function(desk, id, reason) decide(desk, id, "request_changes", reason)

#' @rdname approve
#' @export
withdraw <- function(desk, id) {
  release_in(send_safely(desk, "POST", release_path(id, "/withdrawal")), desk)
}

#' @rdname approve
#' @param statistic,epsilon,mechanism,norm,... The request that takes the place of the other one,
#'   as of [release()].
#' @export
revise <- function(desk, id, statistic, epsilon, mechanism = "auto", norm = "auto", ...) {
  body <- request_body(statistic, epsilon, mechanism, norm, list(...))
  release_in(send_seen(desk, id, "/revisions", body), desk)
}

decide <- function(desk, id, decision, reason) {
  release_in(send_seen(desk, id, "/decision", list(decision = decision, reason = reason)), desk)
}

release_path <- function(id, rest = "") paste0("/v1/releases/", id, rest)

# Send a decision or a revision of a release, with the ETag of the current version.
send_seen <- function(desk, id, rest, body) {
  seen <- httr2::resp_header(send_safely(desk, "GET", release_path(id)), "ETag")
  send_once(
    desk, "POST", release_path(id, rest), json = to_json(body), headers = list(`If-Match` = seen)
  )
}

#' Comment on a request that waits for a review
#'
#' `comment_on()` adds a comment. On your own request it returns the turn to the reviewers if they
#' requested changes, unless it is a study plan that you have edited since. `comments()` returns the
#' comments that you have access to.
#'
#' @param desk A [release_desk()].
#' @param id The id of a release or a study plan.
#' @param text What is said.
#' @param private `TRUE`: among reviewers.
#' @return `comment_on()` returns the comment, `comments()` a data frame of all.
#' @examples
#' \dontrun{
#' comment_on(release_desk(), "rel_1", "The protocol is in the appendix.")
#' comments(release_desk(), "rel_1")$text
#' }
#' @export
comment_on <- function(desk, id, text, private = FALSE) {
  body <- to_json(list(text = text, private = private))
  sent <- send_once(desk, "POST", request_path(id, "/comments"), json = body)
  answer_of(members_of(sent), "desk_comment", desk)
}

#' @rdname comment_on
#' @export
comments <- function(desk, id) {
  found <- members_of(send_safely(desk, "GET", request_path(id, "/comments")))$items
  frame_of_items(found, c("person", "text", "private", "at"))
}

# The address of a release or a study plan.
request_path <- function(id, rest = "") {
  if (startsWith(id, "plan_")) plan_path(id, rest) else release_path(id, rest)
}

#' Study plans
#'
#' A study plan is several questions that reviewers approve as one. `save_plan()` saves a draft,
#' and `request_plan()` asks for its approval. `decide_on_plan()` is a reviewer's vote on all of its
#' questions. `draw()` then releases one question, without a further review. A question is charged
#' when it is drawn, and once: the same call again returns the same release.
#'
#' Where reviewers request changes, `edit_plan()` puts other questions in the place of the plan's,
#' and `request_plan()` sends it again. `edit_plan()` changes a draft too.
#'
#' A plan reserves no budget. A draw is refused if the remaining budget does not cover it.
#'
#' @param dataset A data set, see [dataset()].
#' @param questions A list of questions: lists with a `statistic`, and an `epsilon` or the `accuracy`
#'   that is wanted.
#' @param name What the plan is called in lists.
#' @param purpose What the numbers are for, in words for reviewers.
#' @param desk A [release_desk()].
#' @param id The id of a plan.
#' @param decision `"approve"`, `"request_changes"` or `"reject"`.
#' @param reason Stored in the ledger. The requester will see this text.
#' @param question The place of a question in the plan, counted from 1.
#' @param wait `FALSE` returns a job at once, its `status` being `"running"`.
#' @param on_wait A function of the running release and the seconds of the pause, called before
#'   each.
#' @return A `desk_saved_plan`: a list with its `id`, `status`, `questions`, `charge` and what is
#'   `paid`. Of `draw()` a `desk_release`, see [release()].
#' @examples
#' \dontrun{
#' mean_income <- list(kind = "mean", columns = list("income"))
#' plan <- save_plan(wages, list(list(statistic = mean_income, epsilon = "0.5")), name = "Table 1")
#' request_plan(release_desk(), plan$id)
#' draw(release_desk(), plan$id, 1)
#' }
#' @export
save_plan <- function(dataset, questions, name, purpose = NULL) {
  body <- c(list(dataset = dataset$id), plan_body(questions, name, purpose))
  desk <- desk_of(dataset)
  plan_in(send_once(desk, "POST", "/v1/study-plans", json = to_json(body)), desk)
}

#' @rdname save_plan
#' @export
edit_plan <- function(desk, id, questions, name, purpose = NULL) {
  body <- to_json(plan_body(questions, name, purpose))
  plan_in(send_safely(desk, "PUT", plan_path(id), json = body), desk)
}

plan_body <- function(questions, name, purpose) {
  body <- list(name = name, questions = questions)
  if (!is.null(purpose)) {
    body$purpose <- purpose
  }
  body
}

#' @rdname save_plan
#' @export
saved_plan <- function(desk, id) plan_in(send_safely(desk, "GET", plan_path(id)), desk)

#' @rdname save_plan
#' @export
request_plan <- function(desk, id) plan_in(send_once(desk, "POST", plan_path(id, "/request")), desk)

#' @rdname save_plan
#' @export
withdraw_plan <- function(desk, id) {
  plan_in(send_once(desk, "POST", plan_path(id, "/withdrawal")), desk)
}

#' @rdname save_plan
#' @export
decide_on_plan <- function(desk, id, decision, reason) {
  seen <- httr2::resp_header(send_safely(desk, "GET", plan_path(id)), "ETag")
  sent <- send_once(
    desk, "POST", plan_path(id, "/decision"),
    json = to_json(list(decision = decision, reason = reason)), headers = list(`If-Match` = seen)
  )
  plan_in(sent, desk)
}

#' @rdname save_plan
#' @export
draw <- function(desk, id, question, wait = TRUE, on_wait = NULL) {
  body <- to_json(list(question = as.integer(question) - 1L))
  ask <- function() send_safely(desk, "POST", plan_path(id, "/releases"), json = body)
  asked_once(desk, ask, NULL, wait, on_wait)
}

plan_path <- function(id, rest = "") paste0("/v1/study-plans/", id, rest)

plan_in <- function(response, desk) answer_of(members_of(response), "desk_saved_plan", desk)
