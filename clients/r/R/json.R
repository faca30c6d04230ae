# JSON, and one spelling of it, so that a question has one text, and by it one name.

#' An empty JSON object
#'
#' `list()` is an empty list of JSON; this is an object without members.
#'
#' @return A list without elements that has names.
#' @examples
#' named_list()
#' @export
named_list <- function() stats::setNames(list(), character())

# Return a value as JSON: nothing between its members, ASCII alone, and sorted if that is wanted.
#
# Lists and vectors of another length than one are lists of JSON; with names they are objects.
# A vector of one is a single value, unless it is kept by I().
to_json <- function(value, sorted = FALSE) {
  if (is.null(value)) {
    return("null")
  }
  if (is.factor(value)) {
    value <- as.character(value)
  }
  if (!is.null(names(value))) {
    return(json_object(as.list(value), sorted))
  }
  if (is.list(value) || length(value) != 1L || inherits(value, "AsIs")) {
    told <- vapply(as.list(value), to_json, "", sorted = sorted)
    return(paste0("[", paste(told, collapse = ","), "]"))
  }
  json_scalar(value)
}

json_object <- function(members, sorted) {
  keys <- enc2utf8(names(members))
  # by code points, whatever the language of the machine
  places <- if (sorted) order(keys, method = "radix") else seq_along(keys)
  told <- vapply(places, function(place) {
    paste0(json_text(keys[[place]]), ":", to_json(members[[place]], sorted))
  }, "")
  paste0("{", paste(told, collapse = ","), "}")
}

json_scalar <- function(value) {
  if (inherits(value, "Date")) {
    return(json_text(format(value, "%Y-%m-%d")))
  }
  if (inherits(value, "POSIXt")) {
    return(json_text(format(value, "%Y-%m-%dT%H:%M:%SZ", tz = "UTC")))
  }
  if (is.na(value) && !is.nan(value)) {
    return("null")
  }
  if (is.logical(value)) {
    return(if (value) "true" else "false")
  }
  if (is.numeric(value)) number_text(value) else json_text(as.character(value))
}

# Return the shortest decimal that reads as this number.
number_text <- function(number) {
  if (!is.finite(number)) {
    stop("a number must be finite", call. = FALSE)
  }
  if (number == round(number) && abs(number) < 2^53) {
    return(sprintf("%.0f", number))
  }
  for (digits in 15:17) {
    text <- sprintf("%.*g", digits, number)
    if (as.numeric(text) == number) {
      break
    }
  }
  text
}

json_text <- function(text) {
  codes <- utf8ToInt(enc2utf8(text))
  paste0("\"", paste(vapply(codes, json_character, ""), collapse = ""), "\"")
}

json_character <- function(code) {
  known <- match(code, c(34L, 92L, 8L, 9L, 10L, 12L, 13L))
  if (!is.na(known)) {
    return(c("\\\"", "\\\\", "\\b", "\\t", "\\n", "\\f", "\\r")[[known]])
  }
  if (code >= 32L && code <= 126L) {
    return(intToUtf8(code))
  }
  if (code > 65535L) {
    over <- code - 65536L
    return(sprintf("\\u%04x\\u%04x", 55296L + over %/% 1024L, 56320L + over %% 1024L))
  }
  sprintf("\\u%04x", code)
}

from_json <- function(body) {
  text <- if (is.raw(body)) rawToChar(body) else body
  Encoding(text) <- "UTF-8"
  jsonlite::fromJSON(text, simplifyVector = FALSE)
}

is_object <- function(value) is.list(value) && !is.null(names(value))
