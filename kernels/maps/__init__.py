"""The control maps: public function, its equation, and the operator that makes it differentiable.

Imports the operator modules of the folder above, which import nothing from here; `kernels` has the public names.
"""
