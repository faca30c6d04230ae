# Answers as tidy tables: a row for each number, with its group, its name and its noise.

#' Tidy an answer, or see it at a glance
#'
#' `tidy()` gives a data frame with a row for each number, and `glance()` one with a single row
#' about the answer. They are the generics of the package generics where that is installed.
#'
#' The columns of `tidy()` are those of the groups or cells, then
#' * `term`: the column, the coefficient, `level 0.5`, or `x:y` in a matrix;
#' * `estimate`: the released number; not in a preview;
#' * `noise`: the standard deviation of its noise, 95% of which lies between `noise.low` and
#'   `noise.high`; missing where the law of the noise depends on the data;
#' * `expected.error`: in a preview, how far the number is expected to be off;
#' * `synthetic`: in a dry run, that the number is about nobody;
#' * `std.error`, `conf.low` and `conf.high`: with `inference`, where the population's number is,
#'   sampling and privacy noise together.
#'
#' A column that is called like one of these is called `by` and its name.
#'
#' @param x An answer with numbers, see [release()].
#' @param ... Nothing.
#' @return A data frame.
#' @examples
#' \dontrun{
#' tidy(means)
#' glance(means)
#' }
#' @export
tidy <- function(x, ...) UseMethod("tidy")

#' @rdname tidy
#' @export
glance <- function(x, ...) UseMethod("glance")

.measures <- c(
  "term", "estimate", "noise", "noise.low", "noise.high", "expected.error", "synthetic",
  "std.error", "conf.low", "conf.high"
)

#' @rdname tidy
#' @exportS3Method tidy desk_numbers
#' @rawNamespace S3method(generics::tidy, desk_numbers)
tidy.desk_numbers <- function(x, ...) {
  shape <- x$value
  for (other in list(x$expected_error, x$noise$std)) {
    shape <- or_else(shape, other)
  }
  inferred <- by_term(x$inference)
  rows <- lapply(numbers_in(shape, x$statistic, number_at()), row_of, x = x, inferred = inferred)
  frame_of_rows(rows)
}

#' @export
as.data.frame.desk_numbers <- function(x, row.names = NULL, optional = FALSE, ...) {
  tidy(x)
}

row_of <- function(number, x, inferred) {
  interval <- at(x$noise$interval_95, number$path)
  if (length(interval) != 2L) {
    interval <- list(NULL, NULL)
  }
  row <- c(number$labels, list(term = number$term))
  if (!is.null(x$value)) {
    row$estimate <- real(at(x$value, number$path))
  }
  row$noise <- real(at(x$noise$std, number$path))
  row$noise.low <- real(interval[[1L]])
  row$noise.high <- real(interval[[2L]])
  if (!is.null(x$expected_error)) {
    row$expected.error <- real(at(x$expected_error, number$path))
  }
  if (isTRUE(x$synthetic)) {
    row$synthetic <- TRUE
  }
  if (length(inferred)) {
    term <- or_else(number$inferred, number$term)
    row <- c(row, or_else(inferred[[name_of(number$labels, term)]], not_inferred()))
  }
  row
}

real <- function(value) if (is.null(value) || is.list(value)) NA_real_ else as.numeric(value)

not_inferred <- function() list(std.error = NA_real_, conf.low = NA_real_, conf.high = NA_real_)

# Return what inference says of each number, by its group and name.
by_term <- function(inference) {
  found <- list()
  for (each in inference$terms) {
    found[[name_of(each$by, each$term)]] <- list(
      std.error = real(each$std_error), conf.low = real(each$confidence_95[[1L]]),
      conf.high = real(each$confidence_95[[2L]])
    )
  }
  found
}

name_of <- function(labels, term) {
  paste(c(vapply(labels, as.character, ""), term), collapse = "\r")
}

# Where a number is in an answer, and what it is called; also in its inference.
number_at <- function(labels = list(), term = "", path = list()) {
  list(labels = labels, term = term, path = path)
}

below <- function(here, ..., term = here$term) {
  number_at(here$labels, term, c(here$path, list(...)))
}

labelled <- function(here, labels) {
  taken <- names(labels) %in% c(.measures, "part")
  names(labels)[taken] <- paste("by", names(labels)[taken])
  number_at(c(here$labels, lapply(labels, simple_label)), here$term, here$path)
}

simple_label <- function(label) {
  if (is.null(label)) NA else if (is.list(label)) to_json(label) else label
}

# Return the numbers of an answer's value, in its order.
numbers_in <- function(part, statistic, here) {
  if (is.null(part) && length(here$path) == 0L) {
    return(list())
  }
  if (is.null(part) || is.numeric(part)) {
    return(list(here))
  }
  if (!is_object(part)) {
    return(numbers_of_list(part, statistic, here))
  }
  found <- lapply(names(part), function(name) {
    inner <- part[[name]]
    if (name %in% names(.tables) && is.list(inner) && !is_object(inner)) {
      each <- lapply(seq_along(inner), function(index) {
        .tables[[name]](inner[[index]], statistic, below(here, name, index))
      })
      return(do.call(c, each))
    }
    # what holds numbers of its own names them: means, coefficients, matrix
    numbers_in(inner, statistic, below(here, name, term = name))
  })
  do.call(c, found)
}

# The upper triangle of a symmetric matrix, or the entries of a list.
numbers_of_list <- function(rows, statistic, here) {
  columns <- unlist(statistic$columns)
  names <- if (length(columns) == length(rows)) columns else seq_along(rows) - 1L
  found <- lapply(seq_along(rows), function(i) {
    if (!is.list(rows[[i]])) {
      return(list(below(here, i, term = paste0(here$term, "[", i - 1L, "]"))))
    }
    lapply(seq(i, length(rows[[i]])), function(j) {
      below(here, i, j, term = paste0(names[[i]], ":", names[[j]]))
    })
  })
  do.call(c, found)
}

.tables <- list(
  groups = function(part, statistic, here) {
    numbers_in(part$value, statistic, below(labelled(here, part$by), "value"))
  },
  cells = function(part, statistic, here) {
    list(below(labelled(here, part$cell), "count", term = "count"))
  },
  quantiles = function(part, statistic, here) {
    number <- below(here, "value", term = paste("level", part$level))
    list(c(number, list(inferred = part$level)))
  },
  parts = function(part, statistic, here) {
    index <- here$path[[length(here$path)]]
    own <- at(statistic, list("parts", index, "statistic"))
    numbers_in(part, own, number_at(c(here$labels, list(part = index)), here$term, here$path))
  }
)

# Return what lies at a path, NULL where the way there is not.
at <- function(part, path) {
  for (step in path) {
    there <- is.list(part) &&
      (if (is.character(step)) step %in% names(part) else step <= length(part))
    if (!there) {
      return(NULL)
    }
    part <- part[[step]]
  }
  part
}

# Return rows as a data frame: first the columns of groups, then the measures.
frame_of_rows <- function(rows) {
  named <- unique(unlist(lapply(rows, names)))
  columns <- c(setdiff(named, .measures), intersect(.measures, named))
  cells <- lapply(columns, function(name) simple_column(lapply(rows, `[[`, name)))
  names(cells) <- columns
  if (length(rows) == 0L) {
    return(data.frame(term = character()))
  }
  data.frame(cells, check.names = FALSE, stringsAsFactors = FALSE)
}

#' @rdname tidy
#' @exportS3Method glance desk_numbers
#' @rawNamespace S3method(generics::glance, desk_numbers)
glance.desk_numbers <- function(x, ...) {
  told <- list(
    dataset = x$dataset, statistic = x$statistic$kind, status = x$status,
    mechanism = x$mechanism, norm = x$norm, epsilon = x$epsilon,
    definition = x$guarantee$definition, adjacency = x$guarantee$adjacency,
    verdict = x$usefulness$verdict
  )
  told <- lapply(told, function(each) if (is.null(each)) NA_character_ else as.character(each))
  fit <- Filter(function(each) is.null(each$by), or_else(x$inference$fit, list()))
  names <- gsub("_", ".", vapply(fit, function(each) each$term, ""), fixed = TRUE)
  fitted <- stats::setNames(lapply(fit, function(each) real(each$estimate)), names)
  data.frame(c(told, fitted), stringsAsFactors = FALSE)
}
