answered <- function(value, ..., class = "desk_release") {
  answer_of(list(value = value, ...), c(class, "desk_numbers"), NULL)
}

law <- list(
  std = list(age = 2, income = 3), interval_95 = list(age = list(36, 44), income = list(1, 9))
)

test_that("each number has a row, with its noise", {
  means <- answered(list(age = 40, income = 5), noise = law, statistic = list(kind = "mean"))
  frame <- tidy(means)
  expect_identical(frame$term, c("age", "income"))
  expect_identical(frame$estimate, c(40, 5))
  expect_identical(frame$noise.low, c(36, 1))
  expect_identical(as.data.frame(means), frame)
  expect_identical(coef(means), c(age = 40, income = 5))
})

test_that("groups and cells are columns, and never taken for a measure", {
  groups <- list(groups = list(
    list(by = list(sex = "f", term = 1), value = list(age = 41)),
    list(by = list(sex = "m", term = 2), value = list(age = 39))
  ))
  frame <- tidy(answered(groups))
  expect_identical(names(frame)[1:4], c("sex", "by term", "term", "estimate"))
  expect_identical(frame$sex, c("f", "m"))
  cells <- list(cells = list(
    list(cell = list(sex = "f"), count = 10), list(cell = list(sex = "m"), count = 4)
  ))
  expect_identical(tidy(answered(cells))$estimate, c(10, 4))
})

test_that("the noise of a table is that of each of its cells", {
  cells <- list(
    list(cell = list(sex = "f"), count = 10), list(cell = list(sex = "m"), count = 4)
  )
  tables <- list(tables = list(list(columns = list("sex"), cells = cells)), rows = 14)
  thin <- list(tables = list(list(columns = list("sex"), count = 2.5)), rows = 0)
  frame <- tidy(answered(tables, noise = list(std = thin, interval_95 = NULL)))
  expect_identical(frame$noise, c(2.5, 2.5, 0))
  expect_identical(tidy(answered(NULL, expected_error = thin))$expected.error, c(2.5, 0))
})

test_that("quantiles, matrices and parts have names of their own", {
  levels <- list(quantiles = list(list(level = "0.25", value = 1), list(level = "0.5", value = 2)))
  expect_identical(tidy(answered(levels))$term, c("level 0.25", "level 0.5"))
  matrix <- answered(
    list(matrix = list(list(1, 0.5), list(0.5, 2))), statistic = list(columns = list("x", "y"))
  )
  expect_identical(tidy(matrix)$term, c("x:x", "x:y", "y:y"))
  parts <- answered(
    list(parts = list(list(age = 40), list(count = 9))),
    statistic = list(parts = list(list(statistic = list(kind = "mean"))))
  )
  expect_identical(tidy(parts)$part, c(1L, 2L))
  expect_identical(tidy(parts)$statistic, c("mean", NA))
  born <- answered(
    list(born = "1980-01-01"),
    noise = list(std = list(born = 3), interval_95 = list(born = list("1979-01-01", "1981-01-01")))
  )
  expect_identical(tidy(born)$estimate, "1980-01-01")
  expect_identical(tidy(born)$noise.high, "1981-01-01")
})

test_that("a curve's numbers are called by their place, and in groups by their group", {
  place <- list(threshold = "0.5", false_positive = 0.1, true_positive = 0.7)
  one <- list(curve = list(place), area = 0.8)
  frame <- tidy(answered(one, statistic = list(kind = "roc")))
  expect_identical(frame$term, c("false positive at 0.5", "true positive at 0.5", "area"))
  grouped <- list(groups = list(
    list(by = list(sex = "f"), value = one), list(by = list(sex = "m"), value = one)
  ))
  expect_identical(names(coef(answered(grouped)))[c(3, 6)], c("f area", "m area"))
})

test_that("components have their numbers, and a loading for each column", {
  numbers <- list(
    variance = 1.5, share = 0.75, cumulative = 0.75,
    loadings = list(age = 0.8, income = 0.6), scores = list(age = 0.1, income = 0.2)
  )
  value <- list(means = list(age = 40, income = 9), components = list(numbers, numbers))
  frame <- tidy(answered(value, statistic = list(kind = "pca")))
  expect_identical(frame$term[1:4], c("age", "income", "variance", "share"))
  expect_identical(frame$component[c(1, 3, 10)], c(NA, "1", "2"))
  expect_identical(frame$statistic[c(1, 3, 6, 8)], c("mean", "variance", "loading", "score coefficient"))
  expect_identical(frame$estimate[6:7], c(0.8, 0.6))
  called <- names(coef(answered(value, statistic = list(kind = "pca"))))
  expect_identical(called[c(1, 3, 6)], c("mean age", "1 variance", "loading 1 age"))
})

test_that("inference is next to its number", {
  term <- function(by, ...) {
    list(term = "age", by = by, place = list(...), std_error = 0.5, confidence_95 = list(0, 2))
  }
  fit <- list(list(
    term = "r_squared", estimate = 0.3, std_error = 0.1, confidence_95 = list(0.1, 0.5)
  ))
  stated <- list(terms = list(term(NULL, "coefficients", "age")), fit = fit, method = "how")
  numbers <- list(coefficients = list(age = 1, income = 2))
  answer <- answered(numbers, inference = stated, epsilon = "1")
  frame <- tidy(answer)
  expect_identical(frame$std.error, c(0.5, NA))
  expect_identical(glance(answer)$r.squared, 0.3)
  expect_identical(names(coef(answer)), c("age", "income"))
  whole <- as.data.frame(answer)
  expect_identical(whole$term, c("age", "income", "r_squared"))
  expect_identical(whole$conf.high, c(2, NA, 0.5))
  expect_output(print(summary(answer)), "Method: how")
  grouped <- answered(
    list(groups = list(list(by = list(sex = "f"), value = list(age = 1)))),
    inference = list(terms = list(term(list(sex = "any"), "groups", 0, "value", "age")))
  )
  expect_identical(tidy(grouped)$conf.high, 2)
  median <- answered(
    list(quantiles = list(list(level = "0.5", value = 1))),
    inference = list(terms = list(term(NULL, "quantiles", 0, "value")))
  )
  expect_identical(tidy(median)$std.error, 0.5)
})

test_that("what has no numbers yet is printed and not drawn", {
  waiting <- answered(NULL, id = "rel_1", status = "awaiting_review")
  expect_identical(nrow(tidy(waiting)), 0L)
  expect_output(print(waiting), "rel_1 awaiting_review")
  expect_error(plot(waiting), "no numbers")
})

test_that("bars are drawn where there are any, and say what they are", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  numbers <- list(age = 40, income = 5)
  means <- answered(numbers, noise = law, statistic = list(kind = "mean"), epsilon = "1")
  drawn <- plot(means)
  expect_identical(drawn$low, c(36, 1))
  expect_match(attr(drawn, "meaning"), "95% of the noise")
  expect_match(attr(plot(answered(list(age = 1))), "meaning"), "depends on the data")
  stated <- list(terms = list(list(
    term = "age", place = list("age"), std_error = 1, confidence_95 = list(30, 50)
  )))
  both <- answered(list(age = 40), noise = law, inference = stated)
  expect_identical(plot(both)$low, 30)
  expect_identical(plot(both, intervals = "noise", main = "Age", xlim = c(0, 100))$low, 36)
  expect_identical(plot(answered(NULL, noise = law, class = "desk_preview"))$estimate, c(0, 0))
})

test_that("a running job is shown in an interactive session only", {
  stated <- function(seen) {
    before <- options(releasedesk.progress = seen)
    on.exit(options(before))
    line <- progress_line()
    paste(capture.output(type = "message", {
      line(list(id = "rel_1"), 2)
      line(NULL, 0)
    }), collapse = "\n")
  }
  expect_match(stated(TRUE), "rel_1 is running: 0 s, looking again in 2 s")
  expect_identical(stated(FALSE), "")
})

test_that("labels of categories, and conditions of parts, are in columns of their own", {
  where <- list(
    list(column = "age", op = ">", value = 5), list(column = "sex", op = "in", value = list("f", 1))
  )
  parts <- answered(
    list(parts = list(
      list(groups = list(list(by = list(sex = "f"), value = list(age = 40)))), list(age = 9)
    )),
    statistic = list(parts = list(
      list(statistic = list(kind = "mean")), list(statistic = list(kind = "mean", where = where))
    )),
    labels = list(sex = list(f = "women"), other = list(a = "b"))
  )
  expect_identical(
    names(tidy(parts))[1:5], c("part", "where", "statistic", "sex", "sex label")
  )
  expect_identical(tidy(parts)[["sex label"]], c("women", NA))
  expect_identical(tidy(parts)$where, c(NA, "age > 5 and sex is one of f, 1"))
})

test_that("a number at the edge of what is possible is not shown as a number", {
  reason <- "Cannot be said: why."
  spread <- answered(
    list(groups = list(
      list(by = list(sex = "f"), value = list(age = 0)),
      list(by = list(sex = "m"), value = list(age = 4.5))
    )),
    noise = list(interval_95 = list(groups = list(
      list(value = list(age = list(0, 2))), list(value = list(age = list(3, 6)))
    ))),
    at_edge = list(list(place = list("groups", 0, "value", "age"), reason = reason))
  )
  frame <- tidy(spread)
  expect_identical(frame$estimate, c(NA, 4.5))
  expect_identical(frame$noise.high, c(2, 6))
  expect_identical(frame$note, c(reason, NA))
  printed <- capture_output_lines(print(spread))
  expect_match(printed, "cannot be said", all = FALSE, fixed = TRUE)
  expect_match(printed, reason, all = FALSE, fixed = TRUE)
  summarised <- capture_output_lines(print(summary(spread)))
  expect_match(summarised, "f age .*cannot be said", all = FALSE)
  expect_match(summarised, "m age +4.5", all = FALSE)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  drawn <- plot(spread)
  expect_identical(drawn$estimate, c(NA, 4.5))
  expect_identical(drawn$low, c(0, 3))
})

test_that("ratios have rows of their own, and generics are of the coefficients", {
  slope <- list(
    term = "age", place = list("coefficients", "age"), std_error = 0.5, confidence_95 = list(0, 1.4)
  )
  ratio <- list(
    term = "odds ratio of age", place = list("odds_ratios", "age"), std_error = 1,
    confidence_95 = list(1, 1e300)
  )
  fit <- answered(
    list(coefficients = list(`(intercept)` = -9, age = 0.7), odds_ratios = list(age = 2)),
    statistic = list(kind = "logistic_regression"), epsilon = "1",
    inference = list(terms = list(slope, ratio), method = "m")
  )
  frame <- tidy(fit)
  expect_identical(frame$statistic, c("coefficient", "coefficient", "odds ratio"))
  expect_identical(frame$conf.high, c(NA, 1.4, 1e300))
  expect_identical(coef(fit), c(`(intercept)` = -9, age = 0.7))
  expect_identical(rownames(confint(fit)), c("(intercept)", "age"))
  expect_identical(colnames(vcov(fit)), c("(intercept)", "age"))
  expect_match(capture_output_lines(print(summary(fit))), "odds ratio age", all = FALSE)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  drawn <- plot(fit)
  expect_identical(drawn$estimate, 2)
  expect_identical(drawn$high, 2000)
  expect_true(graphics::par("xlog"))
})

test_that("curves are drawn as curves, a group each", {
  curve <- list(
    list(time = "12", at_risk = 90, survival = 0.9), list(time = "24", at_risk = 40, survival = 0.5)
  )
  groups <- lapply(c("a", "b"), function(arm) list(by = list(arm = arm), value = list(curve = curve)))
  place <- list("groups", 1, "value", "curve", 0, "survival")
  term <- list(
    term = "survival at 12", place = place, std_error = 0.1, confidence_95 = list(0.8, 0.95)
  )
  answer <- answered(
    list(groups = groups, log_rank = list(statistic = 1, p_value = 0.3)), epsilon = "1",
    statistic = list(kind = "kaplan_meier", time = "months"), inference = list(terms = list(term))
  )
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  drawn <- plot(answer)
  expect_identical(drawn$label, c("a", "a", "b", "b"))
  expect_identical(drawn$x, c(12, 24, 12, 24))
  expect_identical(drawn$y, c(0.9, 0.5, 0.9, 0.5))
  expect_identical(drawn$low, c(NA, NA, 0.8, NA))
  expect_identical(graphics::par("usr")[3:4], c(-0.04, 1.04))
  rates <- list(
    list(threshold = "1", false_positive = 0.4, true_positive = 0.7),
    list(threshold = "2", false_positive = 0.1, true_positive = 0.3)
  )
  drawn <- plot(answered(
    list(curve = rates, area = 0.7), statistic = list(kind = "roc"), epsilon = "1"
  ))
  expect_identical(drawn$x, c(0.4, 0.1))
  expect_identical(drawn$y, c(0.7, 0.3))
})

test_that("intervals and variances are R's own generics", {
  terms <- list(
    list(term = "age", place = list("age"), std_error = 0.5, confidence_95 = list(39, 41)),
    list(term = "income", place = list("income"), std_error = 2, confidence_95 = list(1, 9))
  )
  fit <- answered(
    list(age = 40, income = 5), noise = law, inference = list(terms = terms, method = "m")
  )
  expect_identical(
    confint(fit),
    matrix(c(39, 1, 41, 9), 2L, dimnames = list(c("age", "income"), c("2.5 %", "97.5 %")))
  )
  expect_identical(confint(fit, "income")[1L, "97.5 %"], c(`97.5 %` = 9)[[1L]])
  expect_identical(confint(fit, intervals = "noise")["age", "2.5 %"], 36)
  expect_equal(
    confint(fit, "age", level = 0.9),
    matrix(40 + 0.5 * qnorm(c(0.05, 0.95)), 1L, dimnames = list("age", c("5 %", "95 %")))
  )
  expect_error(confint(fit, level = 0.9, intervals = "noise"), "95%")
  expect_error(confint(fit, level = 95), "between 0 and 1")
  expect_identical(diag(vcov(fit)), c(age = 0.25, income = 4))
  expect_true(is.na(vcov(fit)["age", "income"]))
  plain <- answered(list(age = 40), noise = law)
  expect_error(vcov(plain), "inference = \"1/3\"", fixed = TRUE)
  expect_error(confint(plain), "intervals = \"noise\"", fixed = TRUE)
})

test_that("a summary has a panel for each measure of a column", {
  row <- function(arm, column, measure, value) {
    list(by = list(arm = arm), column = column, measure = measure, level = NULL, value = value)
  }
  rows <- list(
    row("a", "wage", "mean", 44), row("b", "wage", "mean", 43),
    row("a", "wage", "sd", 14), row("b", "wage", "sd", 11)
  )
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  drawn <- plot(answered(list(rows = rows), statistic = list(kind = "summary"), epsilon = "1"))
  expect_identical(drawn$estimate, c(44, 43, 14, 11))
  expect_identical(drawn$label, c("a", "b", "a", "b"))
  expect_identical(graphics::par("mfrow"), c(1L, 1L))
})

test_that("an upper bound has its sign, and programs read the number", {
  reason <- "At most this: why."
  answer <- answered(
    list(statistic = 9.5, p_value = 0.003, estimate = 1.5), statistic = list(kind = "test"),
    at_most = list(list(place = list("p_value"), reason = reason))
  )
  frame <- tidy(answer)
  expect_identical(frame$estimate, c(9.5, 0.003, 1.5))
  expect_identical(frame$note, c(NA, reason, NA))
  printed <- capture_output_lines(print(answer))
  expect_match(printed, "<= 0.003", all = FALSE, fixed = TRUE)
  expect_match(printed, reason, all = FALSE, fixed = TRUE)
  summarised <- capture_output_lines(print(summary(answer)))
  expect_match(summarised, "p_value .*<= 0.003", all = FALSE)
})

test_that("a test has its estimate alone on the axis", {
  own <- list(term = "estimate", place = list("estimate"), std_error = 1, confidence_95 = list(-1, 3))
  answer <- answered(
    list(statistic = 1.06, p_value = 0.3, estimate = 1.28), statistic = list(kind = "test"),
    epsilon = "1", inference = list(terms = list(own), method = "m")
  )
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_identical(plot(answer)$estimate, 1.28)
})

test_that("a test is drawn against the value of its hypothesis", {
  own <- list(
    term = "estimate", place = list("estimate"), std_error = 1, confidence_95 = list(59, 63)
  )
  drawn_at <- function(...) {
    answer <- answered(
      list(statistic = 1.06, p_value = 0.3, estimate = 61), epsilon = "1",
      statistic = list(kind = "test", test = "t", columns = list("age"), ...),
      inference = list(terms = list(own), method = "m")
    )
    grDevices::pdf(NULL)
    on.exit(grDevices::dev.off())
    grDevices::dev.control("enable")
    plot(answer)
    calls <- lapply(grDevices::recordPlot()[[1]], `[[`, 2)
    lines <- Filter(function(each) identical(each[[1]]$name, "C_abline"), calls)
    list(at = lines[[1]][[5]], axis = graphics::par("usr")[1:2])
  }
  named <- drawn_at(value = 50L)
  expect_equal(named$at, 50)
  expect_true(named$axis[1] < 50)
  expect_equal(drawn_at()$at, 0)
  expect_equal(drawn_at(value = 50L, groups = "sex")$at, 0)
})
