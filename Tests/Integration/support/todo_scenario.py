"""The interoperability scenario of OpenID AuthZEN: a list of todos that five people share, and who may do what with it."""

RICK, MORTY, SUMMER = "rick@the-citadel.com", "morty@the-citadel.com", "summer@the-smiths.com"
BETH, JERRY = "beth@the-smiths.com", "jerry@the-smiths.com"
ROLES = {RICK: {"admin", "evil_genius"}, MORTY: {"editor"}, SUMMER: {"editor"}, BETH: {"viewer"}, JERRY: {"viewer"}}

# What the published results say, by person: creating a todo; changing and deleting one of somebody else, and one's own.
# Everyone may look at people and todos.
CREATES = {RICK: True, MORTY: True, SUMMER: True, BETH: False, JERRY: False}
CHANGES_OTHERS = {RICK: True, MORTY: False, SUMMER: False, BETH: False, JERRY: False}
CHANGES_OWN = {RICK: True, MORTY: True, SUMMER: True, BETH: False, JERRY: False}


def decisions():
    """The published decisions: person, action, type and id of the resource, owner of the todo or None, what is decided."""
    for number, person in enumerate(ROLES):
        other = MORTY if person == RICK else RICK
        yield person, "can_read_user", "user", BETH, None, True
        yield person, "can_read_user", "user", person, None, True
        yield person, "can_read_todos", "todo", "todo-1", None, True
        yield person, "can_create_todo", "todo", "todo-1", None, CREATES[person]
        for action in ("can_update_todo", "can_delete_todo"):
            yield person, action, "todo", "todo-of-other", other, CHANGES_OTHERS[person]
            yield person, action, "todo", f"todo-{number}-own", person, CHANGES_OWN[person]


def gateway_decisions():
    """Those of the scenario for gateways, which know method and route alone: person, method, route, what is decided."""
    for person in ROLES:
        yield person, "GET", "/users/{userId}", True
        yield person, "GET", "/todos", True
        yield person, "POST", "/todos", CREATES[person]
        yield person, "PUT", "/todos/{todoId}", CHANGES_OWN[person]
        yield person, "DELETE", "/todos/{todoId}", CHANGES_OWN[person]


class TodoPolicy:
    """A decision point's policy for both scenarios, made of the roles.

    - people: who each id of a subject is; by default the ids are those of the scenario."""

    def __init__(self, people=None):
        self.people = people

    def __call__(self, document):
        identity = document["subject"]["id"]
        person = identity if self.people is None else self.people.get(identity)
        roles = ROLES.get(person, set())
        edits = bool(roles & {"editor", "admin", "evil_genius"})
        action, resource = document["action"]["name"], document["resource"]
        if resource["type"] == "route":
            return bool(roles) and (action == "GET" or edits)
        owns = resource.get("properties", {}).get("ownerID") == person
        match action:
            case "can_read_user" | "can_read_todos":
                return bool(roles)
            case "can_create_todo":
                return edits
            case "can_update_todo":
                return edits and owns or "evil_genius" in roles
            case "can_delete_todo":
                return edits and owns or "admin" in roles
        return False
