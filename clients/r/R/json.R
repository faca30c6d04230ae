# JSON as the service reads it.

#' An empty JSON object
#'
#' `list()` is an empty list of JSON; this is an object without members.
#'
#' @return A list without elements that has names.
#' @examples
#' named_list()
#' @export
named_list <- function() stats::setNames(list(), character())

# Return a value as JSON: nothing between its members, and ASCII alone.
#
# Lists and vectors of another length than one are lists of JSON; with names they are objects.
# A vector of one is a single value, unless I() marks it as a list.
to_json <- function(value) {
  if (is.null(value)) {
    return("null")
  }
  if (is.factor(value)) {
    value <- as.character(value)
  }
  if (inherits(value, "POSIXlt")) {
    value <- as.POSIXct(value)
  }
  if (!is.null(names(value))) {
    return(json_object(as.list(value)))
  }
  if (is.list(value) || length(value) != 1L || inherits(value, "AsIs")) {
    shown <- vapply(as.list(value), to_json, "")
    return(paste0("[", paste(shown, collapse = ","), "]"))
  }
  json_scalar(value)
}

json_object <- function(members) {
  keys <- enc2utf8(names(members))
  shown <- vapply(seq_along(keys), function(place) {
    paste0(json_text(keys[[place]]), ":", to_json(members[[place]]))
  }, "")
  paste0("{", paste(shown, collapse = ","), "}")
}

json_scalar <- function(value) {
  if (inherits(value, "Date")) {
    return(if (is.na(value)) "null" else json_text(format(value, "%Y-%m-%d")))
  }
  if (inherits(value, "POSIXt")) {
    return(if (is.na(value)) "null" else json_text(instant_text(value)))
  }
  if (is.na(value) && !is.nan(value)) {
    return("null")
  }
  if (is.logical(value)) {
    return(if (value) "true" else "false")
  }
  if (is.numeric(value)) number_text(value) else json_text(as.character(value))
}

# Return instants as ISO 8601 in UTC, to the microsecond: the same text in a question and in a cell.
instant_text <- function(instants) {
  seconds <- as.numeric(as.POSIXct(instants))
  whole <- floor(seconds)
  # of 1e9 seconds a double has seven decimals
  micros <- round((seconds - whole) * 1e6)
  whole <- whole + (micros == 1e6)
  micros <- micros %% 1e6
  times <- as.POSIXct(whole, origin = "1970-01-01", tz = "UTC")
  shown <- paste0(
    format(times, "%Y-%m-%dT%H:%M:%S", tz = "UTC"),
    ifelse(is.na(micros) | micros == 0, "", sprintf(".%06.0f", micros)), "Z"
  )
  ifelse(is.na(seconds), NA_character_, shown)
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

# Return whether a column of a data frame holds doubles, and no times or integers of 64 bits.
is_plain_double <- function(column) {
  is.double(column) && is.null(dim(column)) &&
    !inherits(column, c("Date", "POSIXt", "difftime", "integer64"))
}

# Return doubles as cells with all digits, never in scientific notation: as ids they are compared.
# But a whole double that is not exact has an exponent: several ids may share it, and the
# service refuses such an id.
number_cells <- function(numbers) {
  numbers <- as.numeric(unclass(numbers))
  cells <- rep(NA_character_, length(numbers))
  known <- !is.na(numbers)
  cells[known] <- as.character(numbers[known])
  whole <- known & is.finite(numbers) & numbers == round(numbers)
  exact <- whole & abs(numbers) < 2^53
  cells[exact] <- sprintf("%.0f", numbers[exact] + 0)
  cells[whole & !exact] <- sprintf("%.16e", numbers[whole & !exact])
  rest <- which(known & is.finite(numbers) & !whole)
  for (digits in 15:17) {
    cells[rest] <- sprintf("%.*g", digits, numbers[rest])
    rest <- rest[as.numeric(cells[rest]) != numbers[rest]]
  }
  small <- known & !whole & grepl("e", cells, fixed = TRUE)
  cells[small] <- vapply(cells[small], amount, "", USE.NAMES = FALSE)
  cells
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
