"""The programs of a control plane, built from pinned Go modules into a cache outside the tree.

`programs` is the table of what there is, `cache` the folder and who may write to it, `golang` the Go that builds,
`build` brings them together: `Assets().get("kube-apiserver")` is the path of a program, built when it is not there yet.
"""
