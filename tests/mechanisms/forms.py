"""The additive form of a question about some of the records: what it sums of all of them."""

from __future__ import annotations

from dataclasses import replace

from mechanisms.domain import Schema
from mechanisms.parted import parts_of
from mechanisms.statistics.additive import AdditiveForm, AdditiveStatistic
from mechanisms.statistics.questions import Question, plain


def form_of(statistic: AdditiveStatistic, schema: Schema) -> AdditiveForm:
    """Return the form; its total takes all records, and sums those that meet the conditions."""
    if not (isinstance(statistic, Question) and statistic.where):
        return statistic.additive(schema)
    parting, question = statistic.parting(schema), plain(statistic)
    assert isinstance(question, AdditiveStatistic)
    form = question.additive(replace(schema, selected=True))
    return replace(form, total=lambda data: form.total(parts_of(data, parting)[0]))
