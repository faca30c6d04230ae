test_that("a question is previewed, rehearsed and released once", {
  people <- new_dataset()
  seen <- preview(people, "mean", columns = "income", by = "sex", epsilon = 0.5)
  expect_s3_class(seen, "desk_preview")
  expect_true(all(tidy(seen)$expected.error > 0))
  rehearsed <- dry_run(people, "mean", columns = "income", by = "sex", epsilon = 0.5)
  expect_true(all(tidy(rehearsed)$synthetic))
  expect_identical(budget(people)$epsilon$spent, "0")

  first <- release(people, "mean", columns = "income", by = "sex", epsilon = 0.5)
  second <- release(people, "mean", columns = "income", by = "sex", epsilon = "0.50")
  expect_identical(answer_bytes(second), answer_bytes(first))
  expect_identical(budget(people)$epsilon$spent, "0.5")
  expect_identical(tidy(first)$sex, c("f", "m"))
  expect_true(check_receipt(first)$ok)
  expect_identical(tidy(released(served(), first$id)), tidy(first))

  again <- release(people, "mean", columns = "income", by = "sex", epsilon = 0.5, fresh = TRUE)
  expect_false(again$id == first$id)
  expect_output(print(first), "mean, k_norm, released, epsilon 0.5")
  expect_output(print(budget(people)), "spent 1")
})

test_that("a question is charged once, however it is spelled", {
  people <- new_dataset()
  ask <- function(...) release(people, "linear_regression", ..., bound = 2, epsilon = 0.3)
  first <- ask(formula = income ~ age + sex, where = where(sex %in% c("f", "m"), age >= 40))
  again <- list(
    ask(
      target = "income", features = list("age", list(column = "sex", reference = "f")),
      where = where(age >= 40L, sex %in% c("m", "f", "m"))
    ),
    release(
      people, list(kind = "linear_regression", formula = "income~age+sex", bound = 2L),
      epsilon = .1 + .2, by = list(), purpose = "Table 2",
      where = where(sex %in% c("f", "m"), age >= 40, age >= 40)
    )
  )
  for (each in again) {
    expect_identical(each$id, first$id)
  }
  expect_false(ask(formula = income ~ age + sex, where = where(age > 40))$id == first$id)
  expect_identical(budget(people)$epsilon$spent, "0.6")
})

test_that("data sets are found by name and by id, and others are refused by their code", {
  people <- new_dataset()
  expect_identical(dataset(served(), people$name)$id, people$id)
  expect_identical(dataset(served(), people$id)$name, people$name)
  expect_true(people$name %in% datasets(served())$name)
  expect_output(print(people), "replace_one, 200 rows")
  refused <- tryCatch(dataset(served(), "no such set"), desk_problem_not_found = identity)
  expect_match(conditionMessage(refused), "There are")
  expect_identical(columns_of(people)$upper, c("5000", "100", ""))
  expect_true(all(c("income", "age", "sex") %in% names(synthetic_rows(people))))
})

test_that("an instant comes back as the instant it was, in each zone", {
  for (zone in zones) {
    instants <- around_changes(zone)
    ends <- list(type = "datetime", lower = "2024-01-01T00:00Z", upper = "2025-01-01T00:00Z")
    people <- upload(served(), data.frame(at = instants), list(
      name = paste("instants", zone), adjacency = "replace_one", max_rows = 100,
      budget = list(epsilon = "100000"), columns = list(at = ends)
    ))
    for (place in c(1L, 4L, 5L, 6L, length(instants))) {
      since <- instants[[place]]
      counted <- release(people, "count", where = where(at >= since), epsilon = 1000)
      expect_equal(counted$value$count, length(instants) - place + 1L)
    }
    some <- instants[3:7]
    counted <- release(people, "count", where = where(at %in% some), epsilon = 1000)
    expect_equal(counted$value$count, 5L)
  }
})

# a port that takes a connection and never answers, so that the caller gives up
silent_server <- function() {
  for (port in sample(20000:30000, 100)) {
    server <- tryCatch(serverSocket(port), error = function(cnd) NULL, warning = function(cnd) NULL)
    if (!is.null(server)) return(list(socket = server, port = port))
  }
  stop("no port is free")
}

test_that("rows are waited for longer than other answers", {
  hasty <- served()
  hasty[c("timeout", "attempts")] <- list(0.001, 1)
  silent <- silent_server()
  on.exit(close(silent$socket))
  unanswered <- hasty
  unanswered$url <- paste0("http://127.0.0.1:", silent$port)
  expect_error(datasets(unanswered), class = "desk_unreachable")
  expect_identical(extend_dataset(new_dataset(hasty), data.frame(
    income = stats::runif(9, 10, 4000), age = 18:26, sex = "m"
  ))$rows, 209L)
})

test_that("progress is shown while rows are read", {
  far <- list(rows = 1234567L, bytes = 250000000L, of_bytes = 1000000000L)
  stated <- "the service reads a.csv: [#####...............] 250 of 1,000 MB, 1,234,567 rows"
  expect_identical(reading_text("a.csv", far), stated)
  far["of_bytes"] <- list(NULL)
  expect_identical(reading_text("a.csv", far), sub("\\[.*MB, ", "", stated))

  show <- reading_line(function() far, "a.csv")
  line <- capture.output(invisible(show()), type = "message")
  expect_match(line, "1,234,567 rows")
  expect_identical(capture.output(invisible(show()), type = "message"), character()) # a second has not passed
  lost <- reading_line(function() stop("no answer"), "a.csv")
  expect_true(lost())

  before <- options(releasedesk.progress = TRUE)
  on.exit(options(before))
  expect_identical(new_dataset()$rows, 200L)
  expect_null(reading_of(served(), "unknown"))
})

test_that("data grow by versions that share a budget", {
  first <- new_dataset()
  more <- data.frame(income = stats::runif(50, 10, 4000), age = 18:67, sex = "f")
  above <- transform(more, income = 1e9)
  expect_identical(
    check_file(served(), above, named_list(), extends = first)$columns$income$clamped_high, 50L
  )
  second <- extend_dataset(first, more)
  expect_identical(second$extends, first$id)
  expect_identical(second$rows, 250L)
  invisible(release(first, "mean", columns = "age", epsilon = 1))
  expect_identical(budget(second)$epsilon$spent, "1")

  stated <- paste("third of", first$name)
  more$income <- stats::runif(50, 10, 4000)
  third <- extend_dataset(second, more, list(name = stated))
  versions <- dataset_versions(first)
  expect_identical(versions$id, c(third$id, second$id, first$id))
  expect_identical(versions$version, 3:1)
  expect_identical(versions$rows, c(300L, 250L, 200L))
  expect_identical(versions$name[[1L]], stated)
  expect_error(extend_dataset(first, more), class = "desk_problem_newer_version")
  expect_error(extend_dataset(third), "file or url")
})

test_that("a refusal is a condition with its code, its remedy and what belongs to it", {
  people <- new_dataset(budget = list(epsilon = "1"))
  refused <- tryCatch(
    release(people, "mean", columns = "income", epsilon = 2),
    desk_problem_budget_exceeded = identity
  )
  expect_s3_class(refused, "desk_problem")
  expect_identical(refused$status, 409L)
  expect_identical(refused$extras$remaining, "1")
  expect_true(nzchar(refused$remedy))
  expect_identical(grant(people, 1, "for the test")$epsilon$total, "2")
  expect_null(access(people))
  listed <- restrict(people, reason = "for the test")
  expect_identical(listed, access(people))
  expect_length(listed$persons, 0)
  expect_null(unrestrict(people, "for the test"))
  expect_error(
    preview(people, "mean", columns = "nothing", epsilon = 1),
    class = "desk_problem_invalid_request"
  )
  keyless <- release_desk(key = "")
  expect_error(datasets(keyless), class = "desk_problem_unauthorized")
  expect_output(print(keyless), "without a key")
})

test_that("no answer is a condition that keeps the name of the question", {
  served()
  absent <- release_desk("http://127.0.0.1:9", "k", attempts = 2, pause = 0)
  people <- answer_of(list(id = "ds_1"), "desk_dataset", absent)
  lost <- tryCatch(
    release(people, "mean", columns = "income", epsilon = 1, idempotency_key = "mine"),
    desk_unreachable = identity
  )
  expect_identical(lost$idempotency_key, "mine")
  expect_error(dataset(absent, "ds_1"), class = "desk_unreachable")
})

test_that("a key is never shown", {
  secret <- "a-secret-that-is-not-shown"
  desk <- release_desk("http://127.0.0.1:9", secret)
  shown <- c(capture.output(print(desk)), capture.output(utils::str(desk)))
  expect_false(any(grepl(secret, shown, fixed = TRUE)))
})

test_that("several releases say more together", {
  people <- new_dataset()
  one <- release(people, "histogram", columns = "sex", epsilon = 0.5)
  other <- release(people, "histogram", columns = "sex", epsilon = 0.4)
  for (others in list(other, other$id, list(other))) {
    both <- derive(one, "histogram", columns = "sex", together_with = others)
    expect_true(all(tidy(both)$noise < tidy(one)$noise))
  }
})

test_that("regressions are derived from moments, with standard errors and R's names", {
  people <- new_dataset(rows = 2000L)
  moments <- release(people, "moments", columns = c("income", "age"), epsilon = 20)
  fit <- derive(moments, "linear_regression", formula = income ~ age, bound = 5)
  expect_identical(names(coef(fit)), c("(intercept)", "age"))
  expect_true(all(tidy(fit)$std.error > 0))
  expect_true("r.squared" %in% names(glance(fit)))
  expect_output(print(summary(fit)), "Guarantee: pure epsilon-DP")
  mean <- derive(moments, "mean", columns = "age")
  expect_lt(abs(coef(mean)[["age"]] - 47.5), 5)
})

test_that("tables have synthetic rows, typed and reproducible", {
  people <- new_dataset()
  edges <- list(age = c(0, 40, 100))
  tables <- release(people, "tables", columns = c("sex", "age"), edges = edges, epsilon = 20)
  rows <- synthetic(tables, rows = 300, seed = 7)
  expect_identical(names(rows), c("sex", "age"))
  expect_identical(levels(rows$sex), c("f", "m"))
  expect_identical(nrow(rows), 300L)
  expect_true(all(rows$age >= 0 & rows$age <= 100))
  about <- attr(rows, "about")
  expect_identical(about$guarantee$epsilon, "20")
  expect_lt(about$tables[[1]]$total_variation, 0.05)
  expect_identical(synthetic(tables, rows = 300, seed = 7), rows)
  expect_false(identical(synthetic(tables, rows = 300, seed = 8)$age, rows$age))
})

test_that("cells of tables and numbers of groups are read page by page", {
  people <- new_dataset()
  tables <- release(people, "tables", columns = c("sex", "age"),
    edges = list(age = c(0, 40, 100)), epsilon = 20)
  found <- cells(tables)
  expect_identical(names(found)[1:4], c("table", "sex", "age", "count"))
  expect_identical(nrow(found), 4L)
  expect_identical(nrow(cells(tables, table = 1)), 4L)
  counts <- cells(release(people, "count", by = "sex", epsilon = 20))
  expect_identical(counts$sex, c("f", "m"))
  expect_true(is.numeric(counts$value))
})

test_that("a job is waited for with a line of progress", {
  people <- new_dataset()
  question <- statistic("quantile_regression", target = "income", features = "age", bound = 5)
  stated <- list()
  on_wait <- function(running, pause) stated[[length(stated) + 1L]] <<- or_else(running$status, "done")
  made <- release(people, question, epsilon = 5, on_wait = on_wait)
  expect_identical(made$status, "released")
  expect_true(all(unlist(stated) %in% c("running", "done")))
  later <- release(people, question, epsilon = 6, wait = FALSE)
  expect_true(later$status %in% c("running", "released"))
})

test_that("a release that needs a review is given back as it is, and may be withdrawn", {
  people <- new_dataset(policy = list(review = "always"))
  waiting <- release(people, "mean", columns = "income", epsilon = 0.5)
  expect_identical(waiting$status, "awaiting_review")
  expect_true(waiting$id %in% releases(served(), status = "awaiting_review")$id)
  own <- tryCatch(approve(served(), waiting$id, "my own"), desk_problem = identity)
  expect_true(own$status %in% c(403L, 409L))
  expect_identical(withdraw(served(), waiting$id)$status, "withdrawn")
})

test_that("changes are requested, answered and decided by two people", {
  people <- new_dataset(policy = list(review = "always"))
  body <- to_json(list(name = paste("second", people$name), role = "curator"))
  made <- members_of(send_once(served(), "POST", "/v1/keys", json = body))
  second <- release_desk(key = made$secret)
  asked <- release(people, "mean", columns = "income", epsilon = 0.5)
  returned <- request_changes(second, asked$id, "less, please")
  expect_identical(returned$status, "changes_requested")
  expect_identical(returned$review$reason, "less, please")
  revised <- revise(served(), asked$id, "mean", columns = "income", epsilon = 0.25)
  expect_identical(revised$epsilon, "0.25")
  expect_identical(comment_on(second, asked$id, "among us", private = TRUE)$private, TRUE)
  expect_identical(comment_on(served(), asked$id, "thank you")$text, "thank you")
  expect_true("thank you" %in% comments(second, asked$id)$text)
  expect_false(reject(second, asked$id, "not now")$status == "awaiting_review")
})

test_that("a release is published, is in the log, and is withdrawn", {
  people <- new_dataset()
  means <- release(people, "mean", columns = "income", epsilon = 0.5)
  expect_identical(publish(served(), means$id, "for all")$status, "published")
  everyone <- release_desk(key = "")
  note <- checkpoint(everyone)
  size <- as.numeric(strsplit(note, "\n", fixed = TRUE)[[1L]][[2L]])
  expect_identical(checkpoint(everyone, size), note)
  expect_identical(inclusion(everyone, 0, size)$index, 0L)
  expect_gt(length(consistency(everyone, 1, size)$path), 0L)
  expect_identical(unpublish(served(), means$id, "the wrong year")$status, "withdrawn")
  expect_identical(publication(served(), means$id)$note, "the wrong year")
})

test_that("stacks, histograms and filters come back as tables", {
  people <- new_dataset()
  parts <- list(list(kind = "mean", columns = "age"), list(kind = "sum", columns = "income"))
  stack <- release(people, "stack", parts = parts, epsilon = 2)
  expect_identical(tidy(stack)$part, c(1L, 2L))
  cells <- release(
    people, "histogram", columns = c("sex", "age"), edges = list(age = c(0, 50, 100)), epsilon = 1
  )
  expect_identical(nrow(tidy(cells)), 4L)
  women <- where(age >= 40, sex == "f")
  kept <- release(people, "mean", columns = "income", where = women, epsilon = 1)
  expect_identical(tidy(kept)$term, "income")
})

test_that("other packages' generics find the methods", {
  skip_if_not_installed("generics")
  people <- new_dataset()
  seen <- preview(people, "mean", columns = "age", epsilon = 1)
  expect_identical(generics::tidy(seen), tidy(seen))
  expect_identical(generics::glance(seen), glance(seen))
})

test_that("the catalog and the ledger's verification are there", {
  expect_gt(length(catalog(served())), 10L)
  expect_true(verification(served())$ok)
  archived <- archive(new_dataset())
  expect_identical(archived$status, "archived")
})

test_that("a study has a price before its first question is paid for", {
  people <- new_dataset()
  mean_income <- list(kind = "mean", columns = list("income"))
  sum_income <- list(kind = "sum", columns = list("income"))
  plan <- study_plan(people, list(
    list(statistic = mean_income, epsilon = "0.5"), list(statistic = sum_income, epsilon = "0.25")
  ))
  expect_equal(plan$charge$amount, "0.75")
  expect_equal(plan$table$kind, c("mean", "sum"))
})

test_that("a study plan is saved, approved and drawn", {
  people <- new_dataset()
  mean_income <- list(kind = "mean", columns = list("income"))
  plan <- save_plan(people, list(list(statistic = mean_income, epsilon = "0.5")), name = "Table 1")
  expect_equal(plan$status, "draft")
  desk <- desk_of(people)
  # no review is required of it
  expect_equal(request_plan(desk, plan$id)$status, "approved")
  first <- draw(desk, plan$id, 1)
  expect_equal(first$status, "released")
  expect_equal(draw(desk, plan$id, 1)$id, first$id)
  expect_equal(saved_plan(desk, plan$id)$paid$amount, "0.5")
  expect_equal(withdraw_plan(desk, plan$id)$status, "withdrawn")
})

test_that("a study plan is edited and commented on", {
  people <- new_dataset()
  mean_income <- list(kind = "mean", columns = list("income"))
  plan <- save_plan(people, list(list(statistic = mean_income, epsilon = "0.5")), name = "Table 1")
  desk <- desk_of(people)
  less <- list(list(statistic = mean_income, epsilon = "0.25"))
  edited <- edit_plan(desk, plan$id, less, name = "Table 2")
  expect_equal(edited$name, "Table 2")
  expect_equal(edited$charge$amount, "0.25")
  request_plan(desk, plan$id)
  comment_on(desk, plan$id, "For the report.")
  expect_equal(comments(desk, plan$id)$text, "For the report.")
})
