# The service that the tests ask: its address and an admin's key come from the environment.

served <- function() {
  if (!nzchar(Sys.getenv("RELEASE_DESK_URL"))) {
    testthat::skip("RELEASE_DESK_URL names no service")
  }
  release_desk()
}

# Return a data set that no other test has asked.
new_dataset <- function(desk = served(), ..., rows = 200L) {
  people <- data.frame(
    # rows of no other data set: the same people get no second budget
    income = stats::runif(rows, 10, 4000), age = 18 + seq_len(rows) %% 60,
    sex = rep(c("f", "m"), length.out = rows)
  )
  spec <- list(
    name = paste("people", format(as.numeric(Sys.time()), digits = 17), sample.int(1e9, 1L)),
    adjacency = "replace_one", budget = list(epsilon = "100"),
    columns = list(
      income = list(type = "number", lower = 0, upper = 5000),
      age = list(type = "number", lower = 0, upper = 100),
      sex = list(type = "category", values = c("f", "m"))
    )
  )
  upload(desk, people, utils::modifyList(spec, list(...)))
}

# Return the half hours of 2024 on each side of which a zone's clocks are changed, in that zone.
around_changes <- function(zone) {
  start <- as.POSIXct("2024-01-01", tz = "UTC")
  halves <- start + 1800 * seq(0, 366 * 48 - 1)
  shown <- as.POSIXct(format(halves, "%Y-%m-%d %H:%M:%S", tz = zone), tz = "UTC")
  changes <- which(diff(as.numeric(shown)) != 1800) + 1L
  stopifnot(length(changes) == 2L)
  near <- halves[sort(as.vector(outer(changes, -4:4, `+`)))]
  attr(near, "tzone") <- zone
  near
}

zones <- c("America/New_York", "Europe/Berlin", "Australia/Lord_Howe")
