"""The pages: one module for each noun, as the API has one for each.

A page's functions read what is shown from the services and hand it to its template. No page may
import another.
"""
