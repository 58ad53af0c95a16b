"""The rules of the plugin contract, one module per part; `check_plugin` runs them all."""
