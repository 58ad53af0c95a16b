"""Optional plugins with the names and arguments of kubernetes-sigs/scheduler-plugins.

They are offered as entry points of the group `kubesched.plugins`, like the plugins of an installed
package, and import nothing but the plugin contract. docs/contrib/ describes them.
"""
