# Answers as tidy tables: a row for each number, with its group, its name and its noise.

#' Tidy an answer, or see it at a glance
#'
#' `tidy()` gives a data frame with a row for each number, and `glance()` one with a single row
#' about the answer. They are the generics of the package generics where that is installed.
#'
#' The columns of `tidy()` are those of the groups or cells, each followed by the labels of its
#' values where they have some (`sex label`), in a stack `part`, `where` and `statistic`, of moments
#' `statistic` (`count`, `mean` or `mean of products`), of a regression with ratios `statistic`
#' (`coefficient` or `odds ratio`, `rate ratio`, `hazard ratio`), then
#' * `term`: the column, the coefficient, `level 0.5`, or `x:y` in a matrix;
#' * `estimate`: the released number; not in a preview;
#' * `noise`: the standard deviation of its noise, 95% of which is between `noise.low` and
#'   `noise.high`; missing where the law of the noise depends on the data;
#' * `expected.error`: in a preview, the expected error of the number;
#' * `synthetic`: in a dry run, that the number is about no real person;
#' * `std.error`, `conf.low` and `conf.high`: with `inference`, where the population's number is,
#'   sampling and privacy noise together;
#' * `note`: why nothing can be said of a number, where that is so of any. Its `estimate` is then
#'   missing, and its interval shows where it may be. Next to an estimate it says why that is an
#'   upper bound, as of the smallest p-value.
#'
#' A column with one of these names is called `by` and its name. Dates and moments are
#' texts. `as.data.frame()` has the numbers of a fit too, such as `r_squared`, which `glance()` has
#' in its one row.
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
  "std.error", "conf.low", "conf.high", "note"
)
.parts <- c("part", "where", "statistic")

#' @rdname tidy
#' @exportS3Method tidy desk_numbers
#' @rawNamespace S3method(generics::tidy, desk_numbers)
tidy.desk_numbers <- function(x, ...) {
  frame_of_rows(rows_of_numbers(x))
}

rows_of_numbers <- function(x) {
  shape <- x$value
  for (other in list(x$expected_error, x$noise$std)) {
    shape <- or_else(shape, other)
  }
  inferred <- by_place(x$inference$terms)
  edges <- by_place(x$at_edge)
  bounds <- by_place(x$at_most)
  numbers <- with_labels(numbers_in(shape, x$statistic, number_at()), x$labels)
  lapply(numbers, row_of, x = x, inferred = inferred, edges = edges, bounds = bounds)
}

# Put the labels of categories next to their values: `sex label` after `sex`.
with_labels <- function(numbers, labels) {
  used <- unique(c(.measures, .parts, unlist(lapply(numbers, function(each) names(each$labels)))))
  own <- list()
  for (name in used) {
    column <- if (name %in% names(labels)) name else sub("^by ", "", name)
    if (column %in% names(labels)) {
      called <- paste(name, "label")
      while (called %in% used) called <- paste("by", called)
      own[[name]] <- list(called = called, texts = labels[[column]])
      used <- c(used, called)
    }
  }
  lapply(numbers, function(each) {
    shown <- list()
    for (name in names(each$labels)) {
      shown[[name]] <- each$labels[[name]]
      if (name %in% names(own)) {
        text <- own[[name]]$texts[[as.character(each$labels[[name]])]]
        shown[[own[[name]]$called]] <- or_else(text, NA_character_)
      }
    }
    each$labels <- shown
    each
  })
}

#' @export
as.data.frame.desk_numbers <- function(x, row.names = NULL, optional = FALSE, ...) {
  frame_of_rows(c(rows_of_numbers(x), rows_of_fit(x)))
}

row_of <- function(number, x, inferred, edges, bounds) {
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
  place <- key_of(from_zero(number$path))
  if (length(inferred)) {
    row <- c(row, intervals_of(inferred[[place]]))
  }
  if (!is.null(bounds[[place]])) {
    row$note <- bounds[[place]]$reason
  }
  noted(row, or_else(inferred[[place]]$reason, edges[[place]]$reason))
}

# Return a row with the note why its number is missing, if there is one.
noted <- function(row, reason) {
  if (!is.null(reason)) {
    row$estimate <- NA_real_
    row$note <- reason
  }
  row
}

# A number as it is, and a date or a moment as its text.
real <- function(value) {
  if (is.null(value) || is.list(value)) {
    return(NA_real_)
  }
  if (is.character(value)) value else as.numeric(value)
}

intervals_of <- function(term) {
  ends <- or_else(term$confidence_95, list(NULL, NULL))
  list(std.error = real(term$std_error), conf.low = real(ends[[1L]]), conf.high = real(ends[[2L]]))
}

# Return facts about numbers by their place in an answer's value.
by_place <- function(shown) {
  found <- list()
  for (each in shown) {
    found[[key_of(each$place)]] <- each
  }
  found
}

# Places count from 0, and paths in R from 1.
from_zero <- function(path) lapply(path, function(step) if (is.character(step)) step else step - 1)

# Return a path as one text; a position in a list is never the name of a member.
key_of <- function(place) {
  steps <- lapply(place, function(step) if (is.character(step)) to_json(step) else format(step))
  paste(unlist(steps), collapse = "/")
}

# Return the numbers of a fit, as R squared, which are not in the value.
rows_of_fit <- function(x) {
  lapply(or_else(x$inference$fit, list()), function(each) {
    labels <- labelled(number_at(), or_else(each$by, list()))$labels
    if (identical(x$statistic$kind, "stack")) {
      index <- each$place[[2L]] + 1L
      labels$part <- index
      labels$statistic <- or_else(x$statistic$parts[[index]]$statistic$kind, NA_character_)
    }
    noise <- or_else(each$noise_95, list(NULL, NULL))
    row <- c(labels, list(term = each$term, estimate = real(each$estimate), noise = NA_real_))
    row <- c(row, list(noise.low = real(noise[[1L]]), noise.high = real(noise[[2L]])))
    noted(c(row, intervals_of(each)), each$reason)
  })
}

# Where a number is in an answer, and what it is called; also in its inference.
number_at <- function(labels = list(), term = "", path = list()) {
  list(labels = labels, term = term, path = path)
}

below <- function(here, ..., term = here$term) {
  number_at(here$labels, term, c(here$path, list(...)))
}

labelled <- function(here, labels) {
  taken <- names(labels) %in% c(.measures, .parts)
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
  if (is.null(part) || is.numeric(part) || is.character(part)) {
    return(list(here))
  }
  if (!is_object(part)) {
    return(numbers_of_list(part, statistic, here))
  }
  # an answer of several statistics names them: means and second moments, hazard ratios
  mixed <- any(vapply(names(.several), function(name) is.list(at(part, name)), logical(1)))
  found <- lapply(names(part), function(name) {
    inner <- part[[name]]
    if (name %in% names(.tables) && is.list(inner) && !is_object(inner)) {
      each <- lapply(seq_along(inner), function(index) {
        .tables[[name]](inner[[index]], statistic, below(here, name, index))
      })
      return(do.call(c, each))
    }
    # what holds numbers of its own names them: means, coefficients, matrix
    own <- below(here, name, term = name)
    if (name %in% .tests) {
      return(lapply(names(inner), function(each) {
        below(own, each, term = gsub("_", " ", paste(name, each)))
      }))
    }
    if (mixed && !nzchar(here$term)) {
      own$labels$statistic <- or_else(at(.several, name), sub("s$", "", name))
    }
    numbers_in(inner, statistic, own)
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

# members that hold the numbers of a test
.tests <- "log_rank"

# what answers of several statistics call theirs, and what the column `statistic` has
.ratios <- list(
  odds_ratios = "odds ratio", rate_ratios = "rate ratio", hazard_ratios = "hazard ratio"
)
.several <- c(list(means = "mean", second = "mean of products"), .ratios)

# the numbers of a principal component by their members
.components <- list(
  variance = "variance", share = "share", cumulative = "cumulative share",
  loadings = "loading", scores = "score coefficient"
)

# A row of a summary; the group of a difference is both groups.
row_of_summary <- function(part, statistic, here) {
  by <- part$by
  measure <- part$measure
  if (!is.null(part$from)) {
    for (name in names(by)) by[[name]] <- paste(by[[name]], "-", part$from[[name]])
    measure <- paste("difference in", measure)
  }
  if (!is.null(part$level)) by[[part$column]] <- part$level
  term <- if (is.null(part$level)) or_else(part$column, measure) else measure
  here$labels$statistic <- measure
  list(below(labelled(here, by), "value", term = term))
}

.tables <- list(
  rows = row_of_summary,
  differences = row_of_summary,
  groups = function(part, statistic, here) {
    numbers_in(part$value, statistic, below(labelled(here, part$by), "value"))
  },
  cells = function(part, statistic, here) {
    lapply(intersect(c("count", "cumulative"), names(part)), function(name) {
      below(labelled(here, part$cell), name, term = name)
    })
  },
  tables = function(part, statistic, here) {
    if (is.null(part$cells)) { # one number for all cells
      return(list(below(here, "count", term = paste(unlist(part$columns), collapse = ":"))))
    }
    lapply(seq_along(part$cells), function(index) {
      own <- labelled(below(here, "cells", index), part$cells[[index]]$cell)
      below(own, "count", term = "count")
    })
  },
  curve = function(part, statistic, here) {
    # the first member says where on the curve the others are
    lapply(names(part)[-1L], function(name) {
      term <- paste(gsub("_", " ", name), "at", part[[1L]])
      below(here, name, term = term)
    })
  },
  components = function(part, statistic, here) {
    index <- here$path[[length(here$path)]]
    own <- labelled(here, list(component = as.character(index)))
    found <- lapply(names(part), function(name) {
      own$labels$statistic <- .components[[name]]
      if (!is.list(part[[name]])) {
        return(list(below(own, name, term = .components[[name]])))
      }
      lapply(names(part[[name]]), function(each) below(own, name, each, term = each))
    })
    do.call(c, found)
  },
  quantiles = function(part, statistic, here) {
    list(below(here, "value", term = paste("level", part$level)))
  },
  parts = function(part, statistic, here) {
    index <- here$path[[length(here$path)]]
    own <- at(statistic, list("parts", index, "statistic"))
    labels <- c(here$labels, list(part = index))
    if (any_where(statistic)) labels$where <- where_in_words(own$where)
    labels$statistic <- or_else(own$kind, NA_character_)
    numbers_in(part, own, number_at(labels, here$term, here$path))
  }
)

any_where <- function(stack) {
  any(vapply(stack$parts, function(part) length(part$statistic$where) > 0L, NA))
}

# Return the conditions of a part in words, as pages have them.
where_in_words <- function(where) {
  if (length(where) == 0L) {
    return(NA_character_)
  }
  shown <- vapply(where, function(each) {
    if (is.null(each$value)) {
      return(paste(each$column, "is", each$op))
    }
    words <- c(`==` = "is", `!=` = "is not", `in` = "is one of")
    op <- if (each$op %in% names(words)) words[[each$op]] else each$op
    values <- lapply(each$value, function(value) {
      if (is.logical(value)) if (value) "yes" else "no" else format(value, digits = 15L)
    })
    paste(each$column, op, paste(unlist(values), collapse = ", "))
  }, "")
  paste(shown, collapse = " and ")
}

# Return the value at a path, or NULL if the path does not exist.
at <- function(part, path) {
  for (step in path) {
    there <- is.list(part) &&
      (if (is.character(step)) step %in% names(part) else step <= length(part))
    if (!there) {
      # a table may have one number in place of its cells: that of each
      last <- path[[length(path)]]
      return(if (identical(step, "cells") && is.list(part) && is.character(last)) part[[last]])
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
  shown <- list(
    dataset = x$dataset, statistic = x$statistic$kind, status = x$status,
    mechanism = x$mechanism, norm = x$norm, epsilon = x$epsilon,
    definition = x$guarantee$definition, adjacency = x$guarantee$adjacency,
    verdict = x$usefulness$verdict
  )
  shown <- lapply(shown, function(each) if (is.null(each)) NA_character_ else as.character(each))
  fit <- Filter(function(each) is.null(each$by), or_else(x$inference$fit, list()))
  names <- gsub("_", ".", vapply(fit, function(each) each$term, ""), fixed = TRUE)
  fitted <- stats::setNames(lapply(fit, function(each) real(each$estimate)), names)
  data.frame(c(shown, fitted), stringsAsFactors = FALSE)
}
