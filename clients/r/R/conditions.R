# Errors, as conditions that a program can handle by class.

#' Conditions
#'
#' A refusal of the service is an error of class `desk_problem`. Its class says which one, too:
#' `budget-exceeded` is a `desk_problem_budget_exceeded`. No answer at all is a
#' `desk_unreachable`. Both are `desk_error`s.
#'
#' A `desk_problem` has the members `status`, `code`, `title`, `detail`, `remedy`, `request_id`
#' and `extras`, a list of what belongs to its code, such as `remaining`. A `desk_unreachable`
#' has `idempotency_key`: the name of a release whose outcome is unknown. The same request under it
#' returns the answer without a second charge.
#'
#' @name conditions
#' @examples
#' \dontrun{
#' tryCatch(
#'   release(wages, "mean", columns = "income", epsilon = 1000),
#'   desk_problem_budget_exceeded = function(refused) refused$extras$remaining
#' )
#' }
NULL

.common <- c("type", "code", "title", "status", "detail", "remedy", "request_id", "instance")

or_else <- function(value, other) if (is.null(value)) other else value

problem_condition <- function(status, members) {
  if (!is_object(members)) {
    members <- named_list()
  }
  code <- or_else(members$code, "unknown")
  title <- or_else(members$title, paste("HTTP", status))
  detail <- or_else(members$detail, title)
  message <- paste(c(paste0(status, " ", code, ":"), detail, members$remedy), collapse = " ")
  own <- paste0("desk_problem_", gsub("[^A-Za-z0-9]+", "_", code))
  structure(
    class = c(own, "desk_problem", "desk_error", "error", "condition"),
    list(
      message = message, call = NULL, status = status, code = code, title = title,
      detail = detail, remedy = members$remedy, request_id = members$request_id,
      extras = members[setdiff(names(members), .common)]
    )
  )
}

unreachable_condition <- function(reason, key = NULL) {
  structure(
    class = c("desk_unreachable", "desk_error", "error", "condition"),
    list(
      message = paste("no answer from the service:", reason), call = NULL, idempotency_key = key
    )
  )
}

# Stop with a refusal of the client itself, in the form of the service's.
refuse <- function(code, detail, status = 404L) {
  stop(problem_condition(status, list(code = code, detail = detail)))
}
