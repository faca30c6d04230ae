# Data sets: public facts, what is left of the budget, and what curators do.

#' Data sets
#'
#' `datasets()` lists them, and `dataset()` finds one by its name or its id. An archived one has lost
#' its name, and is found by its id.
#'
#' @param desk A [release_desk()].
#' @param name A name or an id.
#' @return `dataset()` returns a `desk_dataset` with the public facts, and `datasets()` a data
#'   frame with a row for each.
#' @examples
#' \dontrun{
#' desk <- release_desk()
#' datasets(desk)
#' wages <- dataset(desk, "wages")
#' wages$columns$income$upper
#' }
#' @export
dataset <- function(desk, name) {
  if (inherits(name, "desk_dataset")) {
    return(name)
  }
  if (grepl("^[A-Za-z0-9_.~-]+$", name)) {
    found <- tryCatch(
      members_of(send_safely(desk, "GET", paste0("/v1/datasets/", name))),
      desk_problem = function(problem) if (!problem$status %in% c(404L, 422L)) stop(problem)
    )
    if (!is.null(found)) {
      return(answer_of(found, "desk_dataset", desk))
    }
  }
  every <- Filter(
    function(each) identical(each$status, "active"), read_pages(desk, "/v1/datasets")
  )
  for (each in every) {
    if (identical(each$name, enc2utf8(name))) {
      return(answer_of(each, "desk_dataset", desk))
    }
  }
  names <- vapply(every, function(each) dQuote(each$name, FALSE), "")
  there <- if (length(names)) paste(utils::head(names, 10L), collapse = ", ") else "none"
  wanted <- paste("No data set has the id or the name", dQuote(name, FALSE))
  refuse("not-found", paste0(wanted, ". There are: ", there, "."))
}

#' @rdname dataset
#' @export
datasets <- function(desk) {
  shown <- c("id", "name", "adjacency", "rows", "status")
  frame_of_items(read_pages(desk, "/v1/datasets"), shown)
}

# Return some members of items as a data frame.
frame_of_items <- function(items, names) {
  columns <- lapply(names, function(name) simple_column(lapply(items, `[[`, name)))
  names(columns) <- names
  as.data.frame(columns, stringsAsFactors = FALSE)
}

# Return cells as a vector. Numbers next to texts, as means of dates are, are texts with all digits.
simple_column <- function(cells) {
  cells <- lapply(cells, function(cell) if (is.null(cell)) NA else cell)
  if (any(vapply(cells, is.character, NA))) {
    is_number <- vapply(cells, function(cell) is.numeric(cell) && all(is.finite(cell)), NA)
    cells[is_number] <- lapply(cells[is_number], number_text)
  }
  if (length(cells)) unlist(cells) else character()
}

#' @export
print.desk_dataset <- function(x, ...) {
  size <- if (is.null(x$rows)) "" else paste0(", ", x$rows, " rows")
  shown <- paste0(x$name, " (", x$id, "), ", x$adjacency, size, ", ", x$status)
  cat("<desk_dataset>", shown, "\n")
  print(columns_of(x), row.names = FALSE)
  invisible(x)
}

#' The columns of a data set
#'
#' @param dataset A data set, see [dataset()].
#' @return A data frame: each column's name, type, bounds and values.
#' @examples
#' \dontrun{
#' columns_of(wages)
#' }
#' @export
columns_of <- function(dataset) {
  columns <- dataset$columns
  values <- vapply(columns, function(column) paste(unlist(column$values), collapse = ", "), "")
  bound <- function(name) {
    vapply(columns, function(column) paste(or_else(column[[name]], "")), "", USE.NAMES = FALSE)
  }
  data.frame(
    column = names(columns),
    type = vapply(columns, function(column) column$type, "", USE.NAMES = FALSE),
    lower = bound("lower"), upper = bound("upper"), values = unname(values),
    stringsAsFactors = FALSE
  )
}

#' The remaining budget
#'
#' @param dataset A data set, see [dataset()].
#' @return A `desk_budget`: `epsilon` has `total`, `spent`, `reserved` and `remaining` as exact
#'   texts, and `yours` what of it you may use.
#' @examples
#' \dontrun{
#' budget(wages)$epsilon$remaining
#' }
#' @export
budget <- function(dataset) {
  desk <- desk_of(dataset)
  response <- send_safely(desk, "GET", paste0("/v1/datasets/", dataset$id, "/budget"))
  answer_of(members_of(response), "desk_budget", desk)
}

#' @export
print.desk_budget <- function(x, ...) {
  shown <- c("total", "spent", "reserved", "remaining")
  cat("<desk_budget>", paste(shown, unlist(x$epsilon[shown])), "\n")
  invisible(x)
}

#' Upload, register and archive data sets
#'
#' In an interactive session a line on the terminal says how many bytes and rows the service has
#' read. `options(releasedesk.progress = FALSE)` hides it, and `TRUE` shows it elsewhere.
#'
#' @param desk A [release_desk()].
#' @param file The path of a CSV, CSV.gz, Parquet or Excel file, or a data frame. Times of class
#'   `POSIXct` in a data frame are sent as instants, in UTC, as those in conditions are; a `Date`
#'   stays a date.
#' @param url Where the rows are stored, below a folder or bucket that the operator allows: a
#'   `file:///` or `s3://` address.
#' @param spec The public description of the data set, as a list: see the service's documents.
#' @param dataset A data set, see [dataset()].
#' @param epsilon What to add to the budget.
#' @param reason Stored in the ledger.
#' @param extends In `check_file()`, the data set that the rows would be added to.
#' @return `upload()`, `register()`, `archive()` and `delete_dataset()` return the data set, `grant()`
#'   the budget. `check_file()` returns the report of an upload, as a list: counts by column, and
#'   `warnings` of columns to look at again. Nothing of the file is stored.
#' @examples
#' \dontrun{
#' spec <- list(
#'   name = "wages", adjacency = "replace_one", budget = list(epsilon = "2"),
#'   same_people = "no",
#'   columns = list(income = list(type = "number", lower = 0, upper = 5000))
#' )
#' check_file(release_desk(), "wages.csv", spec)$columns$income
#' wages <- upload(release_desk(), "wages.csv", spec)
#' wages <- register(release_desk(), "file:///srv/people/2024/*.parquet", spec)
#' }
#' @export
upload <- function(desk, file, spec) {
  send_rows(desk, "/v1/datasets", file, spec_shaped(spec))
}

#' @rdname upload
#' @export
check_file <- function(desk, file, spec, extends = NULL) {
  path <- if (is.null(extends)) "/v1/datasets" else versions_path(extends)
  shaped <- if (is.null(extends)) spec_shaped(spec) else spec
  members_of(post_rows(desk, paste0(path, "?check=true"), file, shaped))$report
}

# Send rows and their spec; return the data set.
send_rows <- function(desk, path, file, spec) {
  answer_of(members_of(post_rows(desk, path, file, spec)), "desk_dataset", desk)
}

post_rows <- function(desk, path, file, spec) {
  name <- if (is.data.frame(file)) "the data frame" else basename(file)
  if (is.data.frame(file)) {
    written <- tempfile(fileext = ".csv")
    on.exit(unlink(written))
    write_frame(file, spec, written)
    file <- written
  }
  parts <- list(file = curl::form_file(file), spec = to_json(spec))
  send_shown(desk, path, name, parts = parts)
}

# Write a data frame as CSV that the service reads as it is: instants as instants, in UTC.
write_frame <- function(frame, spec, path) {
  refuse_dialect(spec, "the spec")
  for (name in names(spec$columns)) {
    refuse_dialect(spec$columns[[name]], paste("column", dQuote(name, FALSE)))
  }
  instants <- vapply(frame, inherits, NA, what = "POSIXt")
  frame[instants] <- lapply(frame[instants], instant_text)
  numbers <- vapply(frame, is_plain_double, NA)
  frame[numbers] <- lapply(frame[numbers], number_cells)
  quoted <- which(!numbers & vapply(frame, function(x) is.character(x) || is.factor(x), NA))
  utils::write.csv(
    frame, path, row.names = FALSE, na = "", fileEncoding = "UTF-8", quote = unname(quoted)
  )
}

# How a data frame is written, following the members of a spec that describe a file.
.written <- list(delimiter = ",", encoding = "utf-8", skip_rows = 0, decimal = ".", thousands = "")

refuse_dialect <- function(members, where) {
  for (name in names(.written)) {
    if (!is.null(members[[name]]) && !isTRUE(all.equal(members[[name]], .written[[name]]))) {
      stop(
        where, " has ", dQuote(name, FALSE), ", which says how a text file is written. A data ",
        "frame is sent with commas and decimal points: leave it out", call. = FALSE
      )
    }
  }
}

#' @rdname upload
#' @export
register <- function(desk, url, spec) {
  register_rows(desk, "/v1/datasets", url, spec_shaped(spec))
}

register_rows <- function(desk, path, url, spec) {
  body <- to_json(c(spec, list(source = url)))
  response <- send_shown(desk, path, url, json = body)
  answer_of(members_of(response), "desk_dataset", desk)
}

# Single values of a category, and markers, are lists in a spec.
spec_shaped <- function(spec) {
  for (name in names(spec$columns)) {
    for (several in intersect(c("values", "na"), names(spec$columns[[name]]))) {
      spec$columns[[name]][[several]] <- as.list(spec$columns[[name]][[several]])
    }
  }
  if (!is.null(spec[["na"]])) {
    spec[["na"]] <- as.list(spec[["na"]])
  }
  if (!is.null(spec$policy$allowed)) {
    spec$policy$allowed <- as.list(spec$policy$allowed)
  }
  spec
}

#' @rdname upload
#' @export
grant <- function(dataset, epsilon, reason) {
  desk <- desk_of(dataset)
  body <- to_json(list(epsilon = amount(epsilon), reason = reason))
  send_once(desk, "POST", paste0("/v1/datasets/", dataset$id, "/grants"), json = body)
  budget(dataset)
}

#' Who may see a data set
#'
#' `restrict()` hides a data set, and all that shares its budget account, from everyone but the
#' persons and the members of groups that it names, admins and auditors (curators). For everyone
#' else it and its releases do not exist. `unrestrict()` opens it to everyone whose role allows it.
#'
#' @param dataset A data set, see [dataset()].
#' @param persons The persons of keys.
#' @param groups Names of groups. A provider's have its id and a colon before their name.
#' @param reason Stored in the ledger.
#' @return A list of `persons` and `groups`; `NULL` where everyone may see it.
#' @examples
#' \dontrun{
#' restrict(wages, persons = "ada", groups = "uni:study-7", reason = "the data agreement")
#' access(wages)
#' unrestrict(wages, reason = "the study is over")
#' }
#' @export
access <- function(dataset) {
  path <- paste0("/v1/datasets/", dataset$id, "/access")
  members_of(send_safely(desk_of(dataset), "GET", path))$access
}

#' @rdname access
#' @export
restrict <- function(dataset, persons = character(), groups = character(), reason) {
  set_access(dataset, list(persons = as.list(persons), groups = as.list(groups)), reason)
}

#' @rdname access
#' @export
unrestrict <- function(dataset, reason) {
  set_access(dataset, NULL, reason)
}

set_access <- function(dataset, access, reason) {
  body <- to_json(list(access = access, reason = reason))
  path <- paste0("/v1/datasets/", dataset$id, "/access")
  members_of(send_safely(desk_of(dataset), "PUT", path, json = body))$access
}

#' @rdname upload
#' @export
archive <- function(dataset) {
  desk <- desk_of(dataset)
  response <- send_once(desk, "POST", paste0("/v1/datasets/", dataset$id, "/archive"))
  answer_of(members_of(response), "desk_dataset", desk)
}

#' @rdname upload
#' @details `delete_dataset()` deletes a data set that has no releases, and closes its account. A
#'   `spec` whose `replaces` is the id of such a data set does that in the same step as the upload.
#' @export
delete_dataset <- function(dataset) {
  desk <- desk_of(dataset)
  response <- send_once(desk, "DELETE", paste0("/v1/datasets/", dataset$id))
  answer_of(members_of(response), "desk_dataset", desk)
}

#' Appending data
#'
#' `extend_dataset()` adds rows as the next version: a data set of its own, with the rows of all
#' versions before it, that shares their budget (curators). They are of new people, unless the data
#' set has a unit. `dataset_versions()` lists all versions of a data set.
#'
#' @param dataset A data set, see [dataset()]. Only the newest version can be extended.
#' @param file The path of a CSV, CSV.gz or Parquet file, or a data frame.
#' @param spec What is public about the new rows, as a list: `max_rows` where the data set has a
#'   bound on its rows, and perhaps a `name`.
#' @param url In place of `file`: where the rows are stored, as for [register()].
#' @return `extend_dataset()` returns the new version, a `desk_dataset`, and `dataset_versions()` a
#'   data frame with a row for each, newest first.
#' @examples
#' \dontrun{
#' wages <- extend_dataset(dataset(release_desk(), "wages"), "2025.csv")
#' dataset_versions(wages)
#' }
#' @export
extend_dataset <- function(dataset, file = NULL, spec = named_list(), url = NULL) {
  if (is.null(file) == is.null(url)) {
    stop("either file or url says where the rows are", call. = FALSE)
  }
  desk <- desk_of(dataset)
  path <- versions_path(dataset)
  if (is.null(file)) register_rows(desk, path, url, spec) else send_rows(desk, path, file, spec)
}

#' @rdname extend_dataset
#' @export
dataset_versions <- function(dataset) {
  shown <- c("version", "id", "name", "rows", "created_at")
  frame_of_items(read_pages(desk_of(dataset), versions_path(dataset)), shown)
}

versions_path <- function(dataset) paste0("/v1/datasets/", dataset$id, "/versions")
