"""The pages: one module for each noun, as the API has one for each.

A page's functions read what is shown from the services and hand it to its template. May enter:
a noun's addresses. A page may import all of ``app.desk`` but another page.
"""
