# Questions as the contract has them, and the keys under which they are charged once.

.members <- c("assume", "accuracy", "assume_rows", "inference", "purpose")
.lists <- c("columns", "levels", "features", "by", "where", "parts")

#' Build a question
#'
#' A question is a list with a `kind` and its fields, as the reference of the service has them.
#' This function accepts shorter forms: single columns become lists, and a formula may be
#' one of R's. The functions that take a question call it for you.
#'
#' @param kind A kind, such as `"mean"`, or a whole question as a list.
#' @param ... The fields of that kind, such as `columns`, `formula`, `levels`, `where` and `by`.
#' @return A list.
#' @examples
#' statistic("mean", columns = "income", by = "sex")
#' statistic("linear_regression", formula = log(income) ~ age, bound = 5)
#' @export
statistic <- function(kind, ...) {
  asked <- if (is.character(kind)) list(kind = kind) else as.list(kind)
  fields <- list(...)
  given <- fields[!vapply(fields, is.null, NA)]
  asked[names(given)] <- given
  shaped(asked)
}

# Make lists of what the contract has as lists, however it was given.
shaped <- function(asked) {
  if (inherits(asked$formula, "formula")) {
    asked$formula <- paste(deparse(asked$formula, width.cutoff = 500L), collapse = " ")
  }
  if (is_object(asked$where)) {
    asked$where <- list(asked$where)
  }
  if (is_object(asked$by)) {
    asked$by <- list(asked$by)
  }
  for (name in intersect(.lists, names(asked))) {
    asked[[name]] <- unname(as.list(asked[[name]]))
  }
  if (length(asked$edges)) {
    asked$edges <- lapply(asked$edges, edges_of)
  }
  if (is.list(asked$parts)) {
    asked$parts <- lapply(asked$parts, shaped_part)
  }
  asked
}

# A list of edges, `list(step = 30)` as it is, and the one word "values".
edges_of <- function(edges) {
  if (identical(edges, "values")) edges else as.list(edges)
}

shaped_part <- function(part) {
  if (is.null(part$statistic)) {
    part <- list(statistic = part, share = 1)
  }
  part$statistic <- statistic(part$statistic)
  part
}

#' Choose records
#'
#' @param ... Conditions that a record must meet, all of them: a column, one of `==`, `!=`, `<`,
#'   `<=`, `>`, `>=` or `%in%`, and a value. Values are those of your variables. `is.na(income)` and
#'   `!is.na(income)` select the records without a value and those with one, of a column that stores
#'   its missing cells.
#' @return A list of conditions, for the field `where` of a question.
#' @examples
#' where(age >= 40, region %in% c("north", "south"), !is.na(income))
#' @export
where <- function(...) {
  frame <- parent.frame()
  lapply(as.list(substitute(list(...)))[-1L], condition_of, frame = frame)
}

.operators <- c("==", "!=", "<", "<=", ">", ">=", "%in%")

condition_of <- function(call, frame) {
  present <- is.call(call) && identical(call[[1L]], as.name("!"))
  asked <- if (present) call[[2L]] else call
  if (is.call(asked) && identical(asked[[1L]], as.name("is.na"))) {
    return(list(column = as.character(asked[[2L]]), op = if (present) "present" else "missing"))
  }
  operator <- if (is.call(call)) as.character(call[[1L]]) else ""
  if (length(operator) != 1L || !operator %in% .operators) {
    stop("a condition compares a column with a value, such as age >= 40", call. = FALSE)
  }
  value <- eval(call[[3L]], frame)
  if (operator == "%in%") {
    return(list(column = as.character(call[[2L]]), op = "in", value = as.list(value)))
  }
  list(column = as.character(call[[2L]]), op = operator, value = value)
}

#' Cut a column into bands
#'
#' @param column The name of a column of numbers.
#' @param edges Where the bands begin and end; `list(step = 5)` or `"values"`.
#' @return A list, for the field `by` of a question.
#' @examples
#' statistic("mean", columns = "income", by = list("sex", bands("age", c(18, 40, 65))))
#' @export
bands <- function(column, edges) list(column = column, edges = edges_of(edges))

# Return the body of a request: a question and the members next to it.
request_body <- function(statistic, epsilon, mechanism, norm, fields) {
  given <- fields[!vapply(fields, is.null, NA)]
  aside <- given[intersect(names(given), .members)]
  inside <- given[setdiff(names(given), .members)]
  # a share of epsilon for standard errors, as in inference = "1/3"
  if (is.atomic(aside$inference) && length(aside$inference) == 1L) {
    aside$inference <- list(share = aside$inference)
  }
  asked <- do.call("statistic", c(list(statistic), inside))
  body <- list(statistic = asked, mechanism = mechanism, norm = norm)
  if (!is.null(epsilon)) {
    body$epsilon <- amount(epsilon)
  }
  c(body, aside)
}

# Return a price in one spelling: 0.5, "0.50" and "5e-1" are one price, "0.5".
# A number has 15 digits, so that .1 + .2 is .3. A text that is no number is returned
# unchanged, for the service to refuse it.
amount <- function(value) {
  text <- if (is.numeric(value)) sprintf("%.15g", value) else as.character(value)
  form <- "^\\s*([+-]?)([0-9]*)(?:\\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?\\s*$"
  found <- regmatches(text, regexec(form, text, perl = TRUE))[[1L]]
  if (length(found) == 0L || !nzchar(paste0(found[[3L]], found[[4L]]))) {
    return(text)
  }
  digits <- paste0(found[[3L]], found[[4L]])
  point <- nchar(found[[3L]]) + if (nzchar(found[[5L]])) as.integer(found[[5L]]) else 0L
  if (point <= 0L) {
    digits <- paste0(strrep("0", 1L - point), digits)
    point <- 1L
  }
  digits <- paste0(digits, strrep("0", max(0L, point - nchar(digits))))
  whole <- sub("^0+(?=[0-9])", "", substr(digits, 1L, point), perl = TRUE)
  parts <- sub("0+$", "", substring(digits, point + 1L))
  sign <- if (found[[2L]] == "-") "-" else ""
  paste0(sign, whole, if (nzchar(parts)) paste0(".", parts))
}

# Return the Idempotency-Key to send: a new one, or "auto". By that the service names the question,
# by data set, question, epsilon and person: it knows which spellings mean the same.
question_key <- function(fresh = FALSE) {
  if (!fresh) {
    return("auto")
  }
  paste0("fresh-", paste(format(openssl::rand_bytes(16L)), collapse = ""))
}
