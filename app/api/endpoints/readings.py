"""How far uploads are that are being read, for who sends them."""

from __future__ import annotations

from app.api.answers.ledger import ReadingsAnswer, readings_answer
from app.api.dependencies import Curator, State
from app.api.endpoint import router_of, untimed

router = router_of("/v1/readings", "data sets")


@router.get("", operation_id="listReadings")
@untimed
def list_readings(caller: Curator, state: State) -> ReadingsAnswer:
    """Show how far those of your uploads are that you have sent with a `Reading` (curators).

    Only the sender sees them. One is there from its first rows on until all are stored.
    """
    return readings_answer(state.services.datasets.readings(caller=caller))
