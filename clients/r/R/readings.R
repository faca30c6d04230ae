# Progress of an upload: how many rows the service has read, in an interactive session.

# Send rows and wait until they have been read, with a progress line on the terminal.
send_shown <- function(desk, path, name, ...) {
  send <- function(...) send_once(desk, "POST", path, ..., timeout = while_rows_are_read)
  if (!isTRUE(getOption("releasedesk.progress", interactive()))) {
    return(send(...))
  }
  mark <- paste(as.character(openssl::rand_bytes(16)), collapse = "")
  on.exit(cat(cleared, file = stderr()))
  progress <- reading_line(function() reading_of(desk, mark), name)
  send(..., headers = list(Reading = mark), progress = progress)
}

# Clears the line of the terminal.
cleared <- "\r\033[K"

# Return the function that libcurl calls while it waits: it shows progress once a second at most.
reading_line <- function(look, name) {
  began <- Sys.time()
  due <- began
  function(down, up) {
    if (Sys.time() >= due) {
      # a failed look-up does not stop the upload
      far <- tryCatch(look(), error = function(error) NULL, warning = function(warning) NULL)
      if (!is.null(far)) {
        cat(cleared, reading_text(name, far), sep = "", file = stderr())
      }
      now <- Sys.time()
      due <<- now + max(1, 0.05 * as.numeric(difftime(now, began, units = "secs")))
    }
    TRUE
  }
}

# Return how far a reading is; NULL before its first rows are read, and once all are stored.
#
# With base R's url(): httr2 is busy with the request that waits.
reading_of <- function(desk, mark) {
  headers <- c(Accept = "application/json", Authorization = paste("Bearer", desk$key()))
  page <- url(paste0(desk$url, "/v1/readings"), method = "libcurl", headers = headers)
  on.exit(close(page))
  items <- from_json(charToRaw(paste(readLines(page, warn = FALSE), collapse = "")))$items
  own <- Filter(function(item) identical(item$reading, mark), items)
  if (length(own)) own[[1L]]
}

reading_text <- function(name, far) {
  read <- if (!is.null(far$of_bytes)) {
    done <- (20 * min(far$bytes, far$of_bytes)) %/% max(far$of_bytes, 1)
    bar <- paste0(strrep("#", done), strrep(".", 20 - done))
    sprintf("[%s] %s of %s MB, ", bar, grouped(far$bytes / 1e6), grouped(far$of_bytes / 1e6))
  }
  paste0("the service reads ", name, ": ", read, grouped(far$rows), " rows")
}

grouped <- function(number) format(round(number), big.mark = ",", scientific = FALSE)
