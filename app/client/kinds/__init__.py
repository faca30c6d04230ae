"""What the client has for each kind of statistic. Generated: ``python -m app.services.generated``.

May enter: methods and keywords that follow from the classes of statistics. May import: the client's
questions, models and steps.
"""
