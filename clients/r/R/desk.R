# A connection to one service, as one person, and how requests are sent.

#' Connect to a service
#'
#' The address and the key are read from the environment, so that no script holds them:
#' `RELEASE_DESK_URL` and `RELEASE_DESK_KEY`.
#'
#' What may be repeated safely is sent again when the connection fails or the service is busy.
#'
#' @param url Where the service is.
#' @param key Your API key.
#' @param timeout How long to wait for one answer, in seconds. Rows that are sent or registered are
#'   waited for a day.
#' @param attempts How often a request is sent at most.
#' @param pause How long to wait before it is sent again, in seconds; twice as long each time.
#' @return A `release_desk`, to give to the other functions. Printing it shows no key.
#' @examples
#' desk <- release_desk("http://127.0.0.1:8000", "a key")
#' print(desk)
#' @export
release_desk <- function(url = Sys.getenv("RELEASE_DESK_URL", "http://127.0.0.1:8000"),
                         key = Sys.getenv("RELEASE_DESK_KEY"),
                         timeout = 60, attempts = 5, pause = 0.2) {
  force(key)
  structure(
    list(
      url = sub("/+$", "", url), key = function() key, timeout = timeout, attempts = attempts,
      pause = pause
    ),
    class = "release_desk"
  )
}

#' @export
print.release_desk <- function(x, ...) {
  cat("<release_desk>", x$url, if (nzchar(x$key())) "with a key" else "without a key", "\n")
  invisible(x)
}

# The service answers when it has read all rows, and sends nothing before.
while_rows_are_read <- 86400

# Send a request once; stop with a condition unless it succeeds.
send_once <- function(desk, method, path, json = NULL, query = list(), headers = list(),
                      parts = NULL, timeout = desk$timeout, progress = NULL) {
  request <- httr2::request(paste0(desk$url, path))
  request <- httr2::req_method(request, method)
  request <- httr2::req_timeout(request, timeout)
  request <- httr2::req_user_agent(request, "releasedesk (R)")
  request <- httr2::req_error(request, is_error = function(response) FALSE)
  request <- do.call(httr2::req_url_query, c(list(request), query))
  request <- do.call(httr2::req_headers, c(list(request, Accept = "application/json"), headers))
  if (nzchar(desk$key())) {
    request <- httr2::req_auth_bearer_token(request, desk$key())
  }
  if (!is.null(json)) {
    request <- httr2::req_body_raw(request, charToRaw(json), type = "application/json")
  }
  if (!is.null(parts)) {
    request <- do.call(httr2::req_body_multipart, c(list(request), parts))
  }
  if (!is.null(progress)) {
    request <- httr2::req_options(request, noprogress = 0L, xferinfofunction = progress)
  }
  response <- tryCatch(
    httr2::req_perform(request),
    error = function(error) {
      stop(unreachable_condition(conditionMessage(error), headers[["Idempotency-Key"]]))
    }
  )
  if (httr2::resp_status(response) >= 400L) {
    stop(problem_condition(httr2::resp_status(response), members_or_none(response)))
  }
  response
}

# Send until an answer has come and the service is not busy.
send_safely <- function(desk, method, path, ...) {
  for (attempt in seq_len(desk$attempts)) {
    last <- attempt == desk$attempts
    response <- tryCatch(
      send_once(desk, method, path, ...),
      desk_problem_busy = function(problem) if (last) stop(problem),
      desk_unreachable = function(problem) if (last) stop(problem)
    )
    if (!is.null(response)) {
      return(response)
    }
    Sys.sleep(min(desk$pause * 2^(attempt - 1L), 5))
  }
}

members_or_none <- function(response) {
  force(response) # its own failure is not an unreadable answer
  tryCatch(from_json(body_of(response)), error = function(error) NULL)
}

members_of <- function(response) {
  members <- members_or_none(response)
  if (!is_object(members)) {
    refuse("unknown", "The answer is no JSON object: is this the address of a Release Desk?")
  }
  members
}

body_of <- function(response) {
  if (length(response$body) == 0L) raw() else httr2::resp_body_raw(response)
}

# Read a list of the service to its end.
read_pages <- function(desk, path, query = list()) {
  items <- list()
  repeat {
    page <- members_of(send_safely(desk, "GET", path, query = query))
    items <- c(items, page$items)
    if (is.null(page[["next"]])) {
      return(items)
    }
    query$cursor <- page[["next"]]
  }
}
