test_that("a value has one JSON text, sorted if that is wanted", {
  value <- list(b = 1, a = list("x", TRUE, NULL))
  expect_identical(to_json(value), '{"b":1,"a":["x",true,null]}')
  expect_identical(to_json(value, sorted = TRUE), '{"a":["x",true,null],"b":1}')
  expect_identical(to_json(c("x", "y")), '["x","y"]')
  expect_identical(to_json(I("x")), '["x"]')
  expect_identical(to_json(list()), "[]")
  expect_identical(to_json(named_list()), "{}")
  expect_identical(to_json(NA), "null")
  expect_error(to_json(Inf), "finite")
})

test_that("numbers are the shortest decimals that read as they do", {
  numbers <- c(0.5, 0.1 + 0.2, 1 / 3, 1e-7, 100000, -2, 2^53, 123456789.25)
  told <- vapply(numbers, number_text, "")
  expect_identical(as.numeric(told), numbers)
  known <- c("0.5", "0.30000000000000004", "1e-07", "100000", "-2")
  expect_identical(told[c(1L, 2L, 4L, 5L, 6L)], known)
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

test_that("a question is shaped as the contract has it", {
  asked <- statistic("mean", columns = "income", by = "sex", where = where(age >= 40))
  expect_identical(asked$columns, list("income"))
  expect_identical(asked$by, list("sex"))
  expect_identical(asked$where, list(list(column = "age", op = ">=", value = 40)))
  fit <- statistic("linear_regression", formula = log(income) ~ age, bound = 5)
  expect_identical(fit$formula, "log(income) ~ age")
  cells <- statistic("histogram", columns = "age", edges = list(age = c(0, 50, 100)))
  expect_identical(cells$edges, list(age = list(0, 50, 100)))
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

test_that("names follow from the question, whatever the order of its members", {
  body <- request_body("mean", "0.50", "auto", "auto", list(columns = "income", purpose = NULL))
  expect_identical(question_key("ds_1", body), question_key("ds_1", rev(body)))
  # this is what the Python client calls the same question
  expect_identical(
    question_key("ds_1", body),
    "question-6b4010c398cb0a9e56f9d77bcfc57554ba733c6d2b5e93c5c0e227ed61faff4b"
  )
  expect_false(question_key("ds_2", body) == question_key("ds_1", body))
  expect_false(question_key("ds_1", body, fresh = TRUE) == question_key("ds_1", body, fresh = TRUE))
})
