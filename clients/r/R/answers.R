# What the service answers: lists with a class, and the bytes that came.

# Return an answer as a list of its members, of a class of its own.
answer_of <- function(members, class, desk, body = NULL) {
  structure(members, class = c(class, "desk_answer"), desk = desk, body = body)
}

# Return an answer that holds numbers.
numbers_of <- function(response, class, desk) {
  members <- members_of(response)
  answer_of(members, c(class, "desk_numbers"), desk, body_of(response))
}

# A member that is not there is NULL, and never another one whose name begins alike.
#' @export
`$.desk_answer` <- function(x, name) unclass(x)[[name]]

desk_of <- function(answer) attr(answer, "desk", exact = TRUE)

#' The bytes of an answer
#'
#' A receipt signs them. Save them as they are, to check the receipt later or elsewhere.
#'
#' @param answer A release.
#' @return A raw vector.
#' @examples
#' \dontrun{
#' writeBin(answer_bytes(answer), "answer.json")
#' }
#' @export
answer_bytes <- function(answer) attr(answer, "body", exact = TRUE)

#' @export
print.desk_answer <- function(x, ...) {
  cat("<", class(x)[[1L]], ">\n", sep = "")
  utils::str(unclass(x)[names(x)], give.attr = FALSE, no.list = TRUE)
  invisible(x)
}
