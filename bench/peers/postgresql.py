"""attestgate with its registry in PostgreSQL."""

import json

from .attestgate import AttestGate


class InPostgreSQL(AttestGate):
    name = "attestgate-postgresql"
    rows = {"attested-postgresql"}
    # What the integration tests start; started on the load's core, as if it were a machine of its own.
    database = None
    # The database's own cost is reported besides.
    charged = 1

    def registry_section(self):
        return f"{{postgresql: {json.dumps(self.database.conf)}, secret: {self.directory}/secret}}"

    def configuration(self):
        return super().configuration() + f"administration: {{socket: {self.directory}/socket}}\n"

    @property
    def workers(self):
        """Its own, and the database's that serve it."""
        backends = self.database.sql("SELECT pid FROM pg_stat_activity WHERE usename = 'attestgate' ORDER BY pid")
        return [self.worker, *map(int, backends.split())]
