# Public pages: publications, and the public log of the ledger.

#' Make a release public
#'
#' `publish()` makes a released result readable without a key (curators). `unpublish()` withdraws
#' it permanently: its address then shows the note. `publication()` returns its status.
#'
#' @param desk A [release_desk()].
#' @param id The id of a release.
#' @param reason,note Stored in the ledger, and public.
#' @return A `desk_publication`: who published it, when and why, and the `address` of its page.
#' @examples
#' \dontrun{
#' publish(release_desk(), "rel_1", reason = "Table 2 of the annual report")$address
#' }
#' @export
publish <- function(desk, id, reason) {
  publication_in(send_seen(desk, id, "/publication", list(reason = reason)), desk)
}

#' @rdname publish
#' @export
unpublish <- function(desk, id, note) {
  path <- release_path(id, "/publication/withdrawal")
  publication_in(send_safely(desk, "POST", path, json = to_json(list(note = note))), desk)
}

#' @rdname publish
#' @export
publication <- function(desk, id) {
  publication_in(send_safely(desk, "GET", release_path(id, "/publication")), desk)
}

publication_in <- function(response, desk) {
  answer_of(members_of(response), "desk_publication", desk)
}

#' The public log
#'
#' Every entry of the ledger is a leaf of one Merkle tree, whose size and root the service signs.
#' `checkpoint()` returns such a signature as text. Store it: after a change of earlier
#' entries the service cannot prove consistency with it. No key is needed.
#'
#' @param desk A [release_desk()].
#' @param size How many leaves a tree has. `NULL`: the newest checkpoint.
#' @param index The place of a leaf, counted from 0.
#' @param before How many leaves the smaller tree has.
#' @return `checkpoint()` returns a text. `inclusion()` returns the proof that a leaf is in a tree,
#'   and `consistency()` the proof that a tree begins with a smaller one: lists with a `path` of
#'   hashes.
#' @examples
#' \dontrun{
#' first <- checkpoint(release_desk())
#' consistency(release_desk(), before = 3, size = 42)$path
#' }
#' @export
checkpoint <- function(desk, size = NULL) {
  text <- rawToChar(body_of(send_safely(desk, "GET", "/v1/log/checkpoint", query = sized(size))))
  Encoding(text) <- "UTF-8"
  text
}

#' @rdname checkpoint
#' @export
inclusion <- function(desk, index, size) {
  query <- list(index = whole(index), size = whole(size))
  members_of(send_safely(desk, "GET", "/v1/log/proof/inclusion", query = query))
}

#' @rdname checkpoint
#' @export
consistency <- function(desk, before, size) {
  query <- list(from = whole(before), to = whole(size))
  members_of(send_safely(desk, "GET", "/v1/log/proof/consistency", query = query))
}

sized <- function(size) if (is.null(size)) list() else list(size = whole(size))

# Return a whole number as text, without an exponent.
whole <- function(number) format(number, scientific = FALSE, trim = TRUE, digits = 17L)
