# Asking: previews, dry runs, releases, and what is computed from them.

#' Ask a data set
#'
#' `preview()` estimates the cost and the noise of a release, `dry_run()` makes the
#' same release of synthetic rows. Both are free and read no data. `release()` charges the
#' budget and answers.
#'
#' The same question of the same person to the same data set at the same epsilon is one release.
#' Asked again, from R or from Python, in this or in another spelling, it gives the stored answer,
#' uncharged. So a script may be run twice. `release()` waits for a release that is drawn in the
#' background. It does not wait for a review: the `status` is then `"awaiting_review"`.
#'
#' @param dataset A data set, see [dataset()].
#' @param statistic The question: a kind such as `"mean"`, with its fields in `...`, or a list.
#'   See [statistic()].
#' @param epsilon Its price: a text, which is exact, or a number. A preview may have an `accuracy`
#'   in its place, and is then of the smallest epsilon that reaches it.
#' @param mechanism,norm `"auto"` leaves the choice to the service.
#' @param ... Fields of the question such as `columns`, `formula`, `where` and `by`, and members
#'   of the request such as `purpose`, `inference`, `assume` and `accuracy`. `inference = "1/3"`
#'   buys standard errors with a third of epsilon.
#' @param fresh Repeat a question with a new draw and a new charge.
#' @param idempotency_key A name for the question, in place of the one that it has by itself.
#' @param wait `FALSE` returns a job at once, its `status` being `"running"`.
#' @param on_wait A function of the running release and the seconds of the pause, called before
#'   each. By default an interactive session shows a line of progress.
#' @return A `desk_preview`, a `desk_dry_run` or a `desk_release`: lists of the answer's members,
#'   with [tidy()], [glance()], `plot()`, `summary()` and `as.data.frame()`.
#' @examples
#' \dontrun{
#' wages <- dataset(release_desk(), "wages")
#' preview(wages, "mean", columns = "income", by = "sex", epsilon = 0.5)
#' means <- release(wages, "mean", columns = "income", by = "sex", epsilon = 0.5)
#' tidy(means)
#' plot(means)
#' }
#' @export
release <- function(dataset, statistic, epsilon, mechanism = "auto", norm = "auto", ...,
                    fresh = FALSE, idempotency_key = NULL, wait = TRUE, on_wait = NULL) {
  body <- request_body(statistic, epsilon, mechanism, norm, list(...))
  key <- or_else(idempotency_key, question_key(fresh))
  desk <- desk_of(dataset)
  ask <- function() {
    send_safely(
      desk, "POST", paste0("/v1/datasets/", dataset$id, "/releases"), json = to_json(body),
      headers = list(`Idempotency-Key` = key)
    )
  }
  asked_once(desk, ask, key, wait, on_wait)
}

# Ask for what is charged once and, if it is a job, again when it is done.
asked_once <- function(desk, ask, key, wait, on_wait) {
  response <- ask()
  if (wait && httr2::resp_status(response) == 202L && is_running(release_in(response, desk))) {
    wait_for(response, desk, key, or_else(on_wait, progress_line()))
    # the stored bytes, or the refusal that says it has none
    response <- ask()
  }
  release_in(response, desk)
}

release_in <- function(response, desk) numbers_of(response, "desk_release", desk)

is_running <- function(release) identical(release$status, "running")

# Poll a running release at the pauses that the service asks for, until it has ended.
wait_for <- function(response, desk, key, on_wait) {
  path <- httr2::resp_header(response, "Location")
  while (is_running(running <- release_in(response, desk))) {
    pause <- as.numeric(or_else(httr2::resp_header(response, "Retry-After"), 5))
    on_wait(running, pause)
    Sys.sleep(pause)
    response <- tryCatch(
      send_safely(desk, "GET", path),
      desk_unreachable = function(error) {
        error$idempotency_key <- key
        stop(error)
      }
    )
  }
  on_wait(NULL, 0)
}

# Return the function that shows a running job in one line, which it removes at the end.
progress_line <- function() {
  seen <- getOption("releasedesk.progress", interactive())
  began <- Sys.time()
  shown <- FALSE
  function(running, pause) {
    if (!seen || (is.null(running) && !shown)) {
      return(invisible())
    }
    waited <- as.numeric(difftime(Sys.time(), began, units = "secs"))
    line <- if (is.null(running)) "" else sprintf(
      "%s is running: %.0f s, looking again in %.0f s", running$id, waited, pause
    )
    cat("\r", formatC(line, width = -72L), if (is.null(running)) "\r", sep = "", file = stderr())
    shown <<- TRUE
  }
}

#' @rdname release
#' @export
preview <- function(dataset, statistic, epsilon = NULL, mechanism = "auto", norm = "auto", ...) {
  asked_for_free(dataset, "previews", "desk_preview", statistic, epsilon, mechanism, norm, ...)
}

#' @rdname release
#' @export
dry_run <- function(dataset, statistic, epsilon, mechanism = "auto", norm = "auto", ...) {
  asked_for_free(dataset, "dry-runs", "desk_dry_run", statistic, epsilon, mechanism, norm, ...)
}

#' The price of a study
#'
#' What several questions would cost together, before the first of them is paid for; free.
#'
#' @param dataset A data set, see [dataset()].
#' @param questions A list of questions: lists with a `statistic`, and an `epsilon` or the `accuracy`
#'   that is wanted.
#' @return A `desk_study_plan`: a list with a data frame `table` of the questions and their prices,
#'   the `charge` of all of them, what is `remaining`, and whether it `fits`.
#' @examples
#' \dontrun{
#' mean_income <- list(kind = "mean", columns = list("income"))
#' study_plan(wages, list(list(statistic = mean_income, accuracy = 50)))
#' }
#' @export
study_plan <- function(dataset, questions) {
  desk <- desk_of(dataset)
  path <- paste0("/v1/datasets/", dataset$id, "/study-plans")
  sent <- to_json(list(questions = questions))
  plan <- members_of(send_safely(desk, "POST", path, json = sent))
  plan$table <- do.call(rbind, lapply(plan$questions, function(each) {
    data.frame(
      kind = each$statistic$kind, epsilon = each$epsilon, charge = each$charge$amount,
      verdict = or_else(each$usefulness$verdict, NA_character_)
    )
  }))
  answer_of(plan, "desk_study_plan", desk)
}

asked_for_free <- function(dataset, place, class, statistic, epsilon, mechanism, norm, ...) {
  body <- request_body(statistic, epsilon, mechanism, norm, list(...))
  path <- paste0("/v1/datasets/", dataset$id, "/", place)
  desk <- desk_of(dataset)
  numbers_of(send_safely(desk, "POST", path, json = to_json(body)), class, desk)
}

#' Synthetic rows
#'
#' Synthetic rows of the data set's form, about no real person, to try a script with; free.
#'
#' @param dataset A data set, see [dataset()].
#' @return A data frame.
#' @examples
#' \dontrun{
#' head(synthetic_rows(wages))
#' }
#' @export
synthetic_rows <- function(dataset) {
  path <- paste0("/v1/datasets/", dataset$id, "/dry-runs/rows")
  response <- send_safely(desk_of(dataset), "GET", path)
  headers <- mapply(
    function(column, name) or_else(column$source, name), dataset$columns, names(dataset$columns)
  )
  encoding <- httr2::resp_encoding(response)
  text <- iconv(list(body_of(response)), from = encoding, to = "UTF-8", sub = "?")
  text <- without_titles(sub("^\ufeff", "", text), headers)
  frame <- utils::read.table(
    text = text, header = TRUE, sep = delimiter_of(text, headers), quote = "\"",
    check.names = FALSE, comment.char = "", stringsAsFactors = FALSE, encoding = "UTF-8"
  )
  own <- match(names(frame), headers)
  names(frame)[!is.na(own)] <- names(dataset$columns)[own[!is.na(own)]]
  frame
}

# Return a file without the title lines above its header: `title 1`, `title 2`, ...
without_titles <- function(text, headers) {
  lines <- strsplit(text, "\n", fixed = TRUE)[[1L]]
  title <- lines == paste("title", seq_along(lines)) & !lines %in% headers
  skipped <- which(!title)[[1L]] - 1L
  paste(utils::tail(lines, length(lines) - skipped), collapse = "\n")
}

# Return the delimiter with which the first line has these names.
delimiter_of <- function(text, names) {
  header <- sub("\n.*", "", text)
  signs <- c(",", ";", "\t", "|")
  known <- vapply(signs, function(sign) {
    sum(scan(text = header, what = "", sep = sign, quote = "\"", quiet = TRUE) %in% names)
  }, 0)
  signs[[which.max(known)]]
}

#' Stored releases
#'
#' `released()` returns one by its id, and `releases()` lists yours; a curator sees those of everyone.
#'
#' @param desk A [release_desk()].
#' @param id The id of a release.
#' @param status `NULL`, or `"awaiting_review"`, `"rejected"`, `"withdrawn"` or `"expired"`.
#' @return `released()` returns a `desk_release`, `releases()` a data frame.
#' @examples
#' \dontrun{
#' released(release_desk(), "rel_1")
#' }
#' @export
released <- function(desk, id) {
  release_in(send_safely(desk, "GET", paste0("/v1/releases/", id)), desk)
}

#' @rdname released
#' @export
releases <- function(desk, status = NULL) {
  query <- if (is.null(status)) list() else list(status = status)
  stated <- c("id", "dataset", "status", "mechanism", "norm", "epsilon")
  frame_of_items(read_pages(desk, "/v1/releases", query), stated)
}

#' Compute from a release
#'
#' Free, and without the data. From a release of `moments`: any linear regression of its columns,
#' and all that first and second moments determine. What takes longer than two seconds, as many tables
#' of several releases do, is waited for.
#'
#' @param release A release, see [release()].
#' @param statistic,... What to compute: see [statistic()].
#' @param together_with Other releases about the same records, or their ids: their combination
#'   is more exact.
#' @return A `desk_derivation`, which is used like a release.
#' @examples
#' \dontrun{
#' moments <- release(wages, "moments", columns = c("income", "age"), epsilon = 1)
#' fit <- derive(moments, "linear_regression", formula = income ~ age, bound = 5)
#' summary(fit)
#' }
#' @export
derive <- function(release, statistic, ..., together_with = list()) {
  desk <- desk_of(release)
  body <- list(statistic = do.call("statistic", c(list(statistic), list(...))))
  others <- if (inherits(together_with, "desk_answer")) list(together_with) else together_with
  if (length(others)) {
    ids <- lapply(others, function(each) if (is.character(each)) each else each$id)
    body$together_with <- unname(ids)
  }
  path <- paste0("/v1/releases/", release$id, "/derivations")
  repeat {
    response <- send_safely(desk, "POST", path, json = to_json(body))
    if (httr2::resp_status(response) != 202L) {
      return(numbers_of(response, "desk_derivation", desk))
    }
    Sys.sleep(as.numeric(or_else(httr2::resp_header(response, "Retry-After"), 5)))
  }
}

#' Synthetic rows of a release of tables
#'
#' Rows of no real person, drawn from a graphical model of the released tables. Free, and without
#' the data; they have the guarantee of the release. The same seed returns the same rows.
#'
#' @param release A release of `tables`, see [release()].
#' @param rows How many; at most 2,000,000 values over all columns.
#' @param seed A whole number.
#' @return A data frame: categories as factors, dates as `Date`, moments as `POSIXct`. Its attribute
#'   `about` has the guarantee and the model, and how far each table is from the released one.
#' @examples
#' \dontrun{
#' tables <- release(wages, "tables", columns = c("sex", "region"), epsilon = 1)
#' rows <- synthetic(tables, rows = 1000, seed = 7)
#' attr(rows, "about")$guarantee$epsilon
#' }
#' @export
synthetic <- function(release, rows = 10000, seed = 0) {
  desk <- desk_of(release)
  path <- paste0("/v1/releases/", release$id, "/synthetic")
  asked <- list(rows = rows, seed = seed, format = "csv")
  file <- body_of(send_safely(desk, "POST", path, json = to_json(asked)))
  query <- list(rows = whole(rows), seed = whole(seed), format = "csv")
  about <- members_of(send_safely(desk, "GET", path, query = query))
  frame <- text_frame(file)
  names(frame) <- vapply(about$columns, function(column) column$name, "")
  frame[] <- Map(typed, frame, about$columns)
  structure(frame, about = about)
}

#' Cells of a release of tables or of groups
#'
#' Read page by page, so that large answers need little memory.
#'
#' @param release A release of `tables`, or of any statistic with `by`, see [release()].
#' @param table Only the cells of this table, counted from 1.
#' @return A data frame: of tables a row for each cell, of groups a row for each number.
#' @examples
#' \dontrun{
#' counts <- release(wages, "count", by = "region", epsilon = 1)
#' cells(counts)
#' }
#' @export
cells <- function(release, table = NULL) {
  desk <- desk_of(release)
  query <- list(format = "csv", after = "0", limit = "10000")
  if (!is.null(table)) query$table <- whole(table - 1)
  pages <- list()
  repeat {
    path <- paste0("/v1/releases/", release$id, "/cells")
    response <- send_safely(desk, "GET", path, query = query)
    pages <- c(pages, list(text_frame(body_of(response))))
    if (is.null(httr2::resp_link_url(response, "next"))) break
    query$after <- whole(as.numeric(query$after) + 10000)
  }
  frame <- do.call(rbind, pages)
  frame[] <- lapply(frame, utils::type.convert, as.is = TRUE)
  frame
}

# Return a CSV file of texts.
text_frame <- function(file) {
  text <- rawToChar(file)
  Encoding(text) <- "UTF-8"
  utils::read.table(
    text = text, header = TRUE, sep = ",", quote = "\"", comment.char = "", check.names = FALSE,
    colClasses = "character", na.strings = character(), encoding = "UTF-8"
  )
}

# Return the texts of a column as values of its type.
typed <- function(texts, column) {
  switch(column$type,
    # what a spreadsheet would run has an apostrophe in the file
    category = {
      levels <- unlist(column$values)
      factor(ifelse(texts %in% levels, texts, sub("^'", "", texts)), levels = levels)
    },
    boolean = texts == "true",
    integer = ,
    number = as.numeric(texts),
    date = as.Date(texts),
    datetime = as.POSIXct(texts, format = "%Y-%m-%dT%H:%M:%SZ", tz = "UTC")
  )
}

#' Check a receipt
#'
#' Ask the service whether a release's receipt is its own and fits its ledger.
#'
#' @param release A release, see [release()], or its bytes.
#' @param desk A [release_desk()], where only bytes are given.
#' @return A `desk_receipt_check`; its `ok` is `TRUE` if both are valid.
#' @examples
#' \dontrun{
#' check_receipt(means)$ok
#' }
#' @export
check_receipt <- function(release, desk = desk_of(release)) {
  bytes <- if (is.raw(release)) release else answer_bytes(release)
  response <- send_safely(desk, "POST", "/v1/ledger/receipts", json = rawToChar(bytes))
  answer_of(members_of(response), "desk_receipt_check", desk)
}

#' The catalog, and the ledger's verification
#'
#' `catalog()` lists every statistic and mechanism on offer. `verification()` checks every hash chain
#' and sum of the ledger (curators).
#'
#' @param desk A [release_desk()].
#' @return `catalog()` returns a list, `verification()` a list whose `ok` says whether all checks passed.
#' @examples
#' \dontrun{
#' length(catalog(release_desk()))
#' }
#' @export
catalog <- function(desk) read_pages(desk, "/v1/catalog")

#' @rdname catalog
#' @export
verification <- function(desk) {
  response <- send_safely(desk, "GET", "/v1/ledger/verification")
  answer_of(members_of(response), "desk_verification", desk)
}
