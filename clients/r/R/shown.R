# Answers, printed, summarised and plotted.

.shown <- 30L
.cannot_be_said <- "cannot be said"

#' @export
print.desk_numbers <- function(x, digits = 5L, ...) {
  price <- if (!is.null(x$epsilon)) paste("epsilon", x$epsilon)
  said <- paste(c(x$statistic$kind, x$mechanism, x$status, price), collapse = ", ")
  cat(c(paste0("<", class(x)[[1L]], ">"), x$id, said), fill = TRUE)
  frame <- tidy(x)
  if (nrow(frame)) {
    print(in_words(utils::head(frame, .shown), digits), digits = digits, row.names = FALSE)
  }
  if (nrow(frame) > .shown) {
    cat("and", nrow(frame) - .shown, "more rows\n")
  }
  if (!is.null(frame$note)) {
    cat(strwrap(unique(stats::na.omit(frame$note))), sep = "\n")
  }
  if (!is.null(x$usefulness$sentence)) {
    cat(strwrap(x$usefulness$sentence), sep = "\n")
  }
  invisible(x)
}

# Return a table with words in place of missing estimates, the sign of upper bounds, and no column of
# notes.
in_words <- function(table, digits) {
  if (any(!is.na(table$note))) {
    known <- table$estimate
    if (is.numeric(known)) known <- trimws(formatC(known, digits = digits, format = "g"))
    table$estimate <- with_notes(known, table$note, is.na(table$estimate))
  }
  table[names(table) != "note"]
}

# Return estimates as texts. A note says why one is missing, or why it is an upper bound.
with_notes <- function(texts, notes, missing) {
  ifelse(is.na(notes), texts, ifelse(missing, .cannot_be_said, paste("<=", texts)))
}

#' Summarise an answer
#'
#' With `inference` in the question, or for what is derived from moments: estimates, standard
#' errors and intervals, as for a fit of R's own. Then how they were made, and the guarantee.
#'
#' @param object An answer with numbers, see [release()].
#' @param ... Nothing.
#' @return A `summary_desk_numbers`, whose `coefficients` are a matrix.
#' @examples
#' \dontrun{
#' summary(release(wages, "mean", columns = "income", epsilon = 1))
#' }
#' @export
summary.desk_numbers <- function(object, ...) {
  frame <- tidy(object)
  kept <- intersect(c("estimate", "std.error", "conf.low", "conf.high", "noise"), names(frame))
  coefficients <- as.matrix(frame[kept])
  rownames(coefficients) <- names_of_rows(frame)
  structure(
    list(
      glance = glance(object), coefficients = coefficients, note = frame$note,
      method = object$inference$method, fit = object$inference$fit, guarantee = object$guarantee,
      verdict = object$usefulness
    ),
    class = "summary_desk_numbers"
  )
}

#' @export
print.summary_desk_numbers <- function(x, digits = 4L, ...) {
  about <- x$glance
  cat(about$statistic, " by ", about$mechanism, ", epsilon ", about$epsilon, "\n\n", sep = "")
  lines <- x$coefficients
  # dates and moments are texts, and so is then everything in the table
  if (is.numeric(lines)) lines <- signif(lines, digits)
  if (any(!is.na(x$note))) {
    lines[, "estimate"] <- with_notes(lines[, "estimate"], x$note, is.na(x$coefficients[, "estimate"]))
  }
  print(lines, na.print = "", quote = FALSE)
  for (each in x$fit) {
    lines <- if (is.null(each$estimate)) .cannot_be_said else signif(each$estimate, digits)
    cat(each$term, ": ", lines, "\n", sep = "")
  }
  guarantee <- x$guarantee
  lines <- c(
    if (is.null(x$method)) "No standard errors: they were not requested, or are not known."
    else paste("Method:", x$method),
    if (!is.null(guarantee)) {
      paste0(
        "Guarantee: ", guarantee$definition, ", ",
        if (!is.null(guarantee$rho)) paste0("rho = ", guarantee$rho, ", "), guarantee$adjacency, "."
      )
    },
    x$verdict$sentence
  )
  cat("", unlist(lapply(lines, strwrap)), sep = "\n")
  invisible(x)
}

#' @export
coef.desk_numbers <- function(object, ...) {
  frame <- without_ratios(tidy(object))
  stats::setNames(frame$estimate, names_of_rows(frame))
}

#' Confidence intervals and variances of an answer
#'
#' `confint()` has a row for each number, with the 95% interval that the answer has. The ends of odds,
#' rate and hazard ratios are the exponentials of their coefficients'; `tidy()` has them. A confidence
#' interval holds the population's number, sampling and noise together; a noise interval where the
#' number would have been without the noise. `vcov()` has the squared standard errors in its
#' diagonal. Covariances are in no answer, so the rest of it is `NA`.
#'
#' @param object An answer with numbers, see [release()].
#' @param parm The numbers by name or position; by default all of them. A number of a group is
#'   called by its group and its term, as in `"f age"`.
#' @param level The confidence level. An answer has its intervals for 0.95. For another level they are
#'   made from the standard errors, as if estimates were normal. Noise intervals are for 0.95 alone.
#' @param intervals `"confidence"`, for answers with `inference`, or `"noise"`.
#' @param ... Nothing.
#' @return A matrix: of [stats::confint()] with a row for each number and a column for each end, such as
#'   `2.5 %` and `97.5 %`, of [stats::vcov()] with a row and a column for each.
#' @examples
#' \dontrun{
#' line <- release(wages, "linear_regression", formula = income ~ age, epsilon = 1, inference = "1/3")
#' confint(line)
#' confint(line, level = 0.9)
#' sqrt(diag(vcov(line)))
#' }
#' @importFrom stats confint
#' @export
confint.desk_numbers <- function(object, parm, level = 0.95,
                                 intervals = c("confidence", "noise"), ...) {
  if (!is.numeric(level) || length(level) != 1L || !isTRUE(level > 0 && level < 1)) {
    stop("level must be a number between 0 and 1, such as 0.9", call. = FALSE)
  }
  of_noise <- match.arg(intervals) == "noise"
  stated <- isTRUE(all.equal(level, 0.95))
  if (of_noise && !stated) {
    stop("an answer has 95% noise intervals, and no others", call. = FALSE)
  }
  frame <- without_ratios(tidy(object))
  tail <- (1 - level) / 2
  if (of_noise) {
    found <- measured(frame, c("noise.low", "noise.high"))
  } else if (stated) {
    found <- measured(frame, c("conf.low", "conf.high"), 'or intervals = "noise"')
  } else {
    errors <- measured(frame, "std.error", 'or intervals = "noise"')[, 1L]
    found <- frame$estimate + outer(errors, stats::qnorm(c(tail, 1 - tail)))
  }
  ends <- paste(format(100 * c(tail, 1 - tail), trim = TRUE, digits = 3L), "%")
  dimnames(found) <- list(names_of_rows(frame), ends)
  if (missing(parm)) found else found[parm, , drop = FALSE]
}

#' @rdname confint.desk_numbers
#' @importFrom stats vcov
#' @export
vcov.desk_numbers <- function(object, ...) {
  frame <- without_ratios(tidy(object))
  errors <- measured(frame, "std.error")[, 1L]
  found <- matrix(NA_real_, length(errors), length(errors))
  diag(found) <- errors^2
  dimnames(found) <- rep(list(names_of_rows(frame)), 2L)
  found
}

# Return columns of an answer's table as a matrix, or say how they are asked for.
measured <- function(frame, columns, otherwise = NULL) {
  if (!all(columns %in% names(frame)) || all(is.na(frame[[columns[[1L]]]]))) {
    advice <- paste(c('ask with inference = "1/3"', otherwise), collapse = ", ")
    stop("this answer has no ", columns[[1L]], ": ", advice, call. = FALSE)
  }
  as.matrix(frame[columns])
}

# Return what the rows of an answer are called: their groups and their terms.
names_of_rows <- function(frame) {
  labels <- lapply(frame[setdiff(names(frame), .measures)], as.character)
  vapply(seq_len(nrow(frame)), function(row) {
    # a label that is missing, or that the term says too, distinguishes nothing
    own <- vapply(labels, `[[`, "", row)
    paste(c(own[!is.na(own) & !own %in% c(frame$term[[row]], "coefficient")], frame$term[[row]]),
          collapse = " ")
  }, "")
}

# Return the rows of a table that are no odds, rate or hazard ratios.
without_ratios <- function(frame) {
  frame[!is_ratio(frame), , drop = FALSE]
}

is_ratio <- function(frame) {
  if ("statistic" %in% names(frame)) frame$statistic %in% unlist(.ratios) else rep(FALSE, nrow(frame))
}

#' Draw an answer
#'
#' A point for each number, with error bars: the 95% confidence interval where the answer has
#' one, and otherwise where the number would have been without the noise. The axis says which.
#' A preview shows the noise alone, around zero. A number that cannot be said has its bars alone.
#' Of a regression with odds, rate or hazard ratios these are drawn, on a logarithmic axis. Of a
#' summary each measure of a column has a panel, whose groups share an axis; of a test the estimate
#' is drawn against the value of the hypothesis.
#'
#' Survival is drawn as a step function with its band, and a ROC curve against the line of a score
#' that predicts nothing, a colour for each group. Then `...` may hold `main` alone.
#'
#' @param x An answer with numbers, see [release()].
#' @param intervals Which bars: `"confidence"`, `"noise"`, or `"auto"`.
#' @param labels The text next to each number; by default its group and name.
#' @param ... `xlim` and `main`, as of [graphics::plot.default()].
#' @return What is drawn, invisibly: a data frame with `label`, `estimate`, `low` and `high`; of curves
#'   with `label`, `x`, `y`, `low` and `high`.
#' @examples
#' \dontrun{
#' plot(means)
#' plot(means, intervals = "noise", main = "Income by sex")
#' }
#' @export
plot.desk_numbers <- function(x, intervals = c("auto", "confidence", "noise"), labels = NULL,
                              ...) {
  curves <- curves_of(x)
  if (length(curves)) {
    return(draw_curves(x, curves, list(...)$main))
  }
  intervals <- match.arg(intervals)
  frame <- tidy(x)
  settings <- list(...)
  if (!is.null(at(x$value, "rows"))) {
    return(draw_panels(frame, intervals, labels, settings))
  }
  ratios <- any(is_ratio(frame)) && !"part" %in% names(frame)
  if (ratios) frame <- frame[is_ratio(frame), , drop = FALSE]
  drawn <- drawn_of(with_intervals(frame), intervals, labels)
  if (ratios) drawn <- within_reach(drawn)
  main <- or_else(settings$main, paste0(x$statistic$kind, ", epsilon ", x$epsilon))
  draw_rows(drawn, settings$xlim, main, ratios, reference_of(x$statistic))
}

# Return the value that a hypothesis says its estimate has: 0 unless the question names one. Groups
# that are compared have a difference, of which the hypothesis is always 0.
reference_of <- function(statistic) {
  if (is.null(statistic$groups) && is.numeric(statistic$value)) statistic$value else 0
}

# Return the rows that have a confidence interval where any has one in a test: its statistic and
# p-value are no amounts of what its estimate is of.
with_intervals <- function(frame) {
  known <- intersect(c("conf.low", "noise.low"), names(frame))
  if (!"p_value" %in% frame$term || !"conf.low" %in% known) {
    return(frame)
  }
  finite <- function(ends) is.finite(suppressWarnings(as.numeric(ends)))
  has <- Reduce(`|`, lapply(frame[known], finite))
  if (any(has)) frame[has, , drop = FALSE] else frame
}

# Draw a summary: a panel for each measure of a column, whose groups share an axis.
draw_panels <- function(frame, intervals, labels, settings) {
  what <- paste(frame$statistic, ifelse(frame$term == frame$statistic, "", frame$term))
  what <- gsub("_", " ", trimws(what))
  what <- factor(what, unique(what))
  before <- graphics::par(
    mfrow = grDevices::n2mfrow(nlevels(what)), mar = c(2.2, 4, 1.8, 0.8), oma = c(1.4, 0, 1.6, 0)
  )
  on.exit(graphics::par(before))
  found <- lapply(levels(what), function(panel) {
    own <- frame[what == panel, , drop = FALSE]
    groups <- own[setdiff(names(own), c(.measures, "statistic", "term"))]
    said <- groups[vapply(groups, function(cells) length(unique(cells)) > 1L, NA)]
    called <- do.call(paste, c(unname(lapply(said, as.character)), list(sep = ", ")))
    if (!length(said)) called <- rep("", nrow(own))
    if (!is.null(labels)) called <- labels[what == panel]
    drawn <- drawn_of(own, intervals, called)
    if (nrow(drawn) == 0L) {
      return(NULL)
    }
    draw_rows(drawn, settings$xlim, panel, FALSE)
  })
  if (all(vapply(found, is.null, NA))) {
    stop("there are no numbers to draw yet", call. = FALSE)
  }
  graphics::mtext(settings$main, outer = TRUE, font = 2)
  meant <- unique(unlist(lapply(found, attr, "meaning")))
  graphics::mtext(paste(meant, collapse = "; "), side = 1, outer = TRUE, cex = 0.8)
  invisible(do.call(rbind, found))
}

# Draw points with their bars, a row each, on one axis.
draw_rows <- function(drawn, xlim, main, ratios, reference = 0) {
  if (nrow(drawn) == 0L) {
    stop("there are no numbers to draw yet", call. = FALSE)
  }
  named <- if (reference != 0) reference
  across <- or_else(xlim, range(drawn$estimate, drawn$low, drawn$high, named, na.rm = TRUE))
  wide <- max(graphics::strwidth(drawn$label, units = "inches", cex = 0.9)) + 0.4
  before <- graphics::par(mai = replace(graphics::par("mai"), 2L, min(wide, 3)))
  on.exit(graphics::par(before))
  rows <- rev(seq_len(nrow(drawn)))
  graphics::plot.new()
  graphics::plot.window(
    xlim = across, ylim = c(0.5, nrow(drawn) + 0.5), log = if (ratios) "x" else ""
  )
  graphics::abline(v = if (ratios) 1 else reference, col = "grey50")
  graphics::abline(h = rows, col = "grey90")
  known <- is.finite(drawn$low) & is.finite(drawn$high) & drawn$high > drawn$low
  graphics::arrows(
    drawn$low[known], rows[known], drawn$high[known], rows[known],
    angle = 90, code = 3, length = 0.04
  )
  graphics::points(drawn$estimate, rows, pch = 19)
  graphics::axis(1)
  graphics::axis(2, at = rows, labels = drawn$label, las = 1, tick = FALSE, cex.axis = 0.9)
  graphics::title(main = main, xlab = attr(drawn, "meaning"))
  invisible(drawn)
}

# Return the curves of an answer: for each group a data frame of its places.
curves_of <- function(x) {
  groups <- or_else(at(x$value, "groups"), list(list(by = list(), value = x$value)))
  inferred <- by_place(x$inference$terms)
  found <- lapply(seq_along(groups), function(index) {
    curve <- at(groups[[index]], list("value", "curve"))
    if (is.null(curve)) {
      return(NULL)
    }
    above <- if (is.null(at(x$value, "groups"))) list() else list("groups", index - 1, "value")
    by <- unlist(groups[[index]]$by)
    label <- if (length(by)) paste(by, collapse = ", ") else ""
    rates <- "true_positive" %in% names(curve[[1L]])
    name <- if (rates) "true_positive" else "survival"
    ends <- lapply(seq_along(curve), function(place) {
      term <- inferred[[key_of(c(above, list("curve", place - 1, name)))]]
      or_else(term$confidence_95, list(NA_real_, NA_real_))
    })
    column <- function(member) vapply(curve, function(each) as.numeric(each[[member]]), 0)
    data.frame(
      label = label, x = if (rates) column("false_positive") else column("time"), y = column(name),
      low = vapply(ends, function(each) as.numeric(each[[1L]]), 0),
      high = vapply(ends, function(each) as.numeric(each[[2L]]), 0), rates = rates,
      stringsAsFactors = FALSE
    )
  })
  Filter(Negate(is.null), found)
}

draw_curves <- function(x, curves, main) {
  rates <- curves[[1L]]$rates[[1L]]
  colours <- grDevices::hcl.colors(max(length(curves), 2L), "Dark 3")
  most <- if (rates) 1 else max(vapply(curves, function(each) max(each$x), 0))
  graphics::plot.new()
  graphics::plot.window(xlim = c(0, most), ylim = c(0, 1))
  if (rates) graphics::abline(0, 1, col = "grey50")
  for (place in seq_along(curves)) {
    own <- curves[[place]]
    if (rates) {
      graphics::lines(c(1, own$x, 0), c(1, own$y, 0), type = "o", pch = 19, col = colours[[place]])
      graphics::segments(own$x, own$low, own$x, own$high, col = colours[[place]])
    } else {
      draw_steps(own, colours[[place]])
    }
  }
  graphics::axis(1)
  graphics::axis(2, las = 1)
  labels <- vapply(curves, function(each) each$label[[1L]], "")
  if (length(curves) > 1L) {
    graphics::legend(if (rates) "bottomright" else "topright", labels, col = colours, lty = 1, bty = "n")
  }
  graphics::title(
    main = or_else(main, paste0(x$statistic$kind, ", epsilon ", x$epsilon)),
    xlab = if (rates) "false positives" else or_else(x$statistic$time, "time"),
    ylab = if (rates) "true positives" else "survival"
  )
  drawn <- do.call(rbind, curves)
  invisible(drawn[names(drawn) != "rates"])
}

# A step function that begins at 1, and its band.
draw_steps <- function(own, colour) {
  at <- c(0, own$x)
  known <- is.finite(own$low) & is.finite(own$high)
  if (all(known)) {
    steps <- function(ends) list(x = rep(at, each = 2L)[-1L], y = utils::head(rep(c(1, ends), each = 2L), -1L))
    below <- steps(own$low)
    above <- steps(own$high)
    graphics::polygon(
      c(below$x, rev(above$x)), c(below$y, rev(above$y)),
      col = grDevices::adjustcolor(colour, 0.2), border = NA
    )
  }
  graphics::lines(at, c(1, own$y), type = "s", col = colour)
}

# Ratios whose interval says nothing have ends that no axis holds.
within_reach <- function(drawn) {
  drawn$low <- pmax(drawn$low, min(drawn$estimate) / 1000)
  drawn$high <- pmin(drawn$high, max(drawn$estimate) * 1000)
  drawn
}

# Return what is drawn of a tidy table, and what its bars mean.
drawn_of <- function(frame, intervals, labels) {
  measured <- intersect(.measures, names(frame))
  if (is.null(labels)) {
    groups <- frame[setdiff(names(frame), measured)]
    terms <- if (length(unique(frame$term)) > 1L || length(groups) == 0L) list(frame$term)
    labels <- do.call(paste, c(unname(lapply(groups, as.character)), terms, list(sep = ", ")))
  }
  inferred <- "conf.low" %in% names(frame) && any(is.finite(frame$conf.low))
  confident <- intervals == "confidence" || (intervals == "auto" && inferred)
  ends <- if (confident) c("conf.low", "conf.high") else c("noise.low", "noise.high")
  # of a date or a moment there is nothing to draw
  number <- function(cells) suppressWarnings(as.numeric(cells))
  column <- function(name) {
    if (name %in% names(frame)) number(frame[[name]]) else rep(NA_real_, nrow(frame))
  }
  centre <- if ("estimate" %in% names(frame)) number(frame$estimate) else rep(0, nrow(frame))
  drawn <- data.frame(
    label = as.character(labels), estimate = centre, low = column(ends[[1L]]),
    high = column(ends[[2L]]), stringsAsFactors = FALSE
  )
  drawn <- drawn[is.finite(drawn$estimate) | is.finite(drawn$low), ]
  attr(drawn, "meaning") <- meaning_of(drawn, confident)
  drawn
}

meaning_of <- function(drawn, confident) {
  if (!any(is.finite(drawn$low))) {
    return("no bars: the noise's law depends on the data")
  }
  if (confident) "bars: 95% confidence, sampling and noise together" else "bars: 95% of the noise"
}
