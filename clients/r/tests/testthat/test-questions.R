test_that("a value has one JSON text", {
  value <- list(b = 1, a = list("x", TRUE, NULL))
  expect_identical(to_json(value), '{"b":1,"a":["x",true,null]}')
  expect_identical(to_json(c("x", "y")), '["x","y"]')
  expect_identical(to_json(I("x")), '["x"]')
  expect_identical(to_json(list()), "[]")
  expect_identical(to_json(named_list()), "{}")
  expect_identical(to_json(NA), "null")
  expect_error(to_json(Inf), "finite")
})

test_that("numbers are the shortest decimals that read as they do", {
  numbers <- c(0.5, 0.1 + 0.2, 1 / 3, 1e-7, 100000, -2, 2^53, 123456789.25)
  answered <- vapply(numbers, number_text, "")
  expect_identical(as.numeric(answered), numbers)
  known <- c("0.5", "0.30000000000000004", "1e-07", "100000", "-2")
  expect_identical(answered[c(1L, 2L, 4L, 5L, 6L)], known)
})

test_that("an instant is one text, in a question and in a data frame, whatever its zone", {
  for (zone in zones) {
    instants <- around_changes(zone)
    file <- tempfile()
    on.exit(unlink(file), add = TRUE)
    write_frame(data.frame(at = instants, day = as.Date("2024-02-29")), list(), file)
    written <- utils::read.csv(file)
    known <- as.POSIXct(written$at, format = "%Y-%m-%dT%H:%M:%SZ", tz = "UTC")
    expect_identical(as.numeric(known), as.numeric(instants))
    expect_identical(unique(written$day), "2024-02-29")
    expect_identical(to_json(instants), paste0('["', paste(written$at, collapse = '","'), '"]'))
    expect_identical(to_json(as.POSIXlt(instants[[3L]])), to_json(instants[[3L]]))
  }
  expect_identical(
    instant_text(as.POSIXct(c(1700000000.1, 0.9999999, NA), origin = "1970-01-01", tz = "UTC")),
    c("2023-11-14T22:13:20.100000Z", "1970-01-01T00:00:01Z", NA)
  )
  expect_error(write_frame(data.frame(x = 1.125), list(decimal = ","), file), "leave it out")
  thousands <- list(columns = list(x = list(type = "number", thousands = ".")))
  expect_error(write_frame(data.frame(x = 1.125), thousands, file), "column \"x\"")
})

test_that("no number of a data frame is sent in scientific notation", {
  ids <- c(100000, 1e15, -1e5, 2^53 - 1, 123456789012, 1e5 + 0.5, 1e-7, 0.1 + 0.2, 1 / 3, -0, NA)
  file <- tempfile()
  on.exit(unlink(file))
  frame <- data.frame(id = ids, name = c(letters[1:10], NA), part = factor("a, b"))
  write_frame(frame, list(), file)
  lines <- readLines(file)
  expect_identical(lines[[1L]], '"id","name","part"')
  expect_identical(lines[[2L]], '100000,"a","a, b"')
  expect_identical(lines[[12L]], ',,"a, b"')
  cells <- sub(",.*", "", lines[-1L])
  known <- c(
    "100000", "1000000000000000", "-100000", "9007199254740991", "123456789012", "100000.5",
    "0.0000001", "0.30000000000000004"
  )
  expect_identical(cells[seq_along(known)], known)
  expect_identical(as.numeric(cells), ids)
  # such an id may be of several people, and the service refuses it for its exponent
  expect_match(number_cells(2^53), "e+15", fixed = TRUE)
  write_frame(data.frame(id = c(1e5, 2e5)), list(), file)
  expect_identical(readLines(file), c('"id"', "100000", "200000"))
})

test_that("texts are ASCII alone", {
  expect_identical(to_json("a\"b\\\n\u0141\u007f"), '"a\\"b\\\\\\n\\u0141\\u007f"')
  expect_identical(to_json("\U0001F600"), '"\\ud83d\\ude00"')
  expect_identical(from_json(to_json("\U0001F600\u0141")), "\U0001F600\u0141")
})

test_that("prices have one spelling", {
  for (same in list(0.5, "0.5", "0.50", "5e-1", " .5 ", "+0.5")) {
    expect_identical(amount(same), "0.5")
  }
  expect_identical(amount(1000), "1000")
  expect_identical(amount("1e3"), "1000")
  expect_identical(amount("0.00"), "0")
  expect_identical(amount("-0.5"), "-0.5")
  expect_identical(amount("much"), "much")
})

test_that("conditions ask whether a cell is missing", {
  expect_identical(
    where(is.na(income), !is.na(age)),
    list(list(column = "income", op = "missing"), list(column = "age", op = "present"))
  )
})

test_that("a question is shaped as the contract has it", {
  asked <- statistic("mean", columns = "income", by = "sex", where = where(age >= 40))
  expect_identical(asked$columns, list("income"))
  expect_identical(asked$by, list("sex"))
  expect_identical(asked$where, list(list(column = "age", op = ">=", value = 40)))
  fit <- statistic("linear_regression", formula = log(income) ~ age, bound = 5)
  expect_identical(fit$formula, "log(income) ~ age")
  cells <- statistic("histogram", columns = "age", edges = list(age = c(0, 50, 100)))
  expect_identical(cells$edges, list(age = list(0, 50, 100)))
  wide <- statistic("kaplan_meier", time = "days", edges = list(days = list(step = 30)))
  expect_identical(to_json(wide$edges), '{"days":{"step":30}}')
  whole <- statistic("histogram", columns = "age", edges = list(age = "values"))
  expect_identical(to_json(whole$edges), '{"age":"values"}')
  expect_identical(to_json(bands("age", "values")), '{"column":"age","edges":"values"}')
  stack <- statistic("stack", parts = list(list(kind = "mean", columns = "age"), list(
    statistic = list(kind = "sum", columns = "age"), share = 2
  )))
  expect_identical(stack$parts[[1L]]$statistic$columns, list("age"))
  expect_identical(vapply(stack$parts, function(part) part$share, 0), c(1, 2))
})

test_that("conditions take values from variables, and no other calls", {
  least <- 40
  kept <- where(age > least, sex %in% c("f", "x"))
  expect_identical(kept[[1L]]$value, 40)
  expect_identical(kept[[2L]], list(column = "sex", op = "in", value = list("f", "x")))
  expect_error(where(log(age)), "age >= 40")
  expect_error(where(age), "age >= 40")
})

test_that("the service names a question, unless it is asked for a new draw", {
  expect_identical(question_key(), "auto")
  expect_false(question_key(fresh = TRUE) == question_key(fresh = TRUE))
})

test_that("a share of epsilon stands for an inference", {
  asked <- function(inference) {
    body <- request_body("mean", 1, "auto", "auto", list(columns = "age", inference = inference))
    body$inference
  }
  expect_identical(asked("1/3"), list(share = "1/3"))
  expect_identical(asked(0.25), list(share = 0.25))
  expect_identical(asked(list(share = "1/2")), list(share = "1/2"))
  expect_null(asked(NULL))
})
