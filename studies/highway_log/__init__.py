"""The bundled MO-Highway log, built from the simulator; `data/` holds its episodes and learning curves."""
