"""`bench dctcp`: the best threshold K and gain g of DCTCP for a short buffer (`sweep`)."""
