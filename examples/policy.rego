# The rules of policy.yaml for Open Policy Agent and conftest; docs/policies.md describes how to run them.
package main

removes(change) if change.action in {"delete", "recreate"}

identity(object) := sprintf("%s/%s -n %s", [lower(object.kind), object.name, object.namespace]) if object.namespace != ""

identity(object) := sprintf("%s/%s", [lower(object.kind), object.name]) if object.namespace == ""

# The document of a plan has no labels. They come from `kubectl get namespaces -o json`.
may_be_deleted contains namespace.metadata.name if {
	some namespace in data.namespaces.items
	"example.com/may-be-deleted" in object.keys(namespace.metadata.labels)
}

deny contains message if {
	time.weekday(time.now_ns()) == "Friday"
	some change in input.changes
	removes(change)
	change.object.kind == "PersistentVolumeClaim"
	message := sprintf("no claim is deleted on Fridays (UTC): %s", [identity(change.object)])
}

deny contains message if {
	some change in input.changes
	removes(change)
	change.object.kind == "Namespace"
	not change.object.name in may_be_deleted
	message := sprintf(
		"a namespace is deleted only if it has the label example.com/may-be-deleted: %s",
		[identity(change.object)],
	)
}

deny contains "a plan deletes at most 200 objects; split the change" if {
	input.summary.delete + input.summary.recreate > 200
}

deny contains message if {
	some owner in input.owners
	owner.outcome == "blocked"
	owner.reason.code != "suspended"
	message := sprintf("no owner may be left without a working build: %s", [identity(owner)])
}
