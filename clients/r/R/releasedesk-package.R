#' Ask a Release Desk
#'
#' Release Desk answers questions about personal data with differentially private numbers. Start
#' with [release_desk()], find a [dataset()], look with [preview()], and ask with [release()].
#' Answers have [tidy()], [glance()], `summary()` and `plot()`. Refusals are [conditions].
#'
#' @keywords internal
"_PACKAGE"
