# Releases that wait for a review: decisions, revisions and comments.

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

#' Comment on a release that waits for a review
#'
#' `comment_on()` adds a comment, and returns the turn to the reviewers if they requested changes.
#' `comments()` returns the comments that you have access to.
#'
#' @param desk A [release_desk()].
#' @param id The id of a release.
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
  sent <- send_once(desk, "POST", release_path(id, "/comments"), json = body)
  answer_of(members_of(sent), "desk_comment", desk)
}

#' @rdname comment_on
#' @export
comments <- function(desk, id) {
  found <- members_of(send_safely(desk, "GET", release_path(id, "/comments")))$items
  frame_of_items(found, c("person", "text", "private", "at"))
}
