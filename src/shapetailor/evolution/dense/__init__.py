"""Alg. 2 on whole planes (P pictures, K regions, H, W) by tensor operations: what bands and boxes are to a CPU.

Many pictures of one size go side by side on a GPU, with few launches and hardly any wait. The mathematics is that of
`evolution`, and so are the results, up to rounding; `labels` tell regions apart, −1 is outside the picture.
"""
