library(testthat)
library(releasedesk)

test_check("releasedesk")
